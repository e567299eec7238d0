# tests/python/shared/onnx_models.py: small ONNX models for tests
import numpy as np
from onnx import helper, numpy_helper


def model(nodes, inputs, outputs, constants=(), opset=20):
    """A model of nodes; inputs as {name: (dtype, shape)}, constants as {name: array}."""
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(d)), s) for n, (d, s) in inputs.items()]
    results = [helper.make_empty_tensor_value_info(n) for n in outputs]
    weights = [numpy_helper.from_array(v, n) for n, v in dict(constants).items()]
    graph = helper.make_graph(nodes, "graph", infos, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def network():
    """image [n, 3, 8, 8] → scores [n, 5] and where the largest is."""
    rng = np.random.default_rng(1)

    def random(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    constants = {
        "w": random(8, 3, 3, 3), "bias": random(8), "scale": random(8), "shift": random(8), "mean": random(8),
        "variance": random(8) ** 2 + 0.1, "out": random(8, 5),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["image", "w", "bias"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["b"]),
        helper.make_node("Relu", ["b"], ["r"]), helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"]), helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "out"], ["scores"]), helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
    ]  # fmt: skip
    return model(nodes, {"image": ("float32", ["n", 3, 8, 8])}, ["scores", "best"], constants)
