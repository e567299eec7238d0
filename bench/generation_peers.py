# bench/generation_peers.py: a step of a decoder in ONNX Runtime and in OpenVINO, from one ONNX file
"""The file is PyTorch's export of a step behind a cache of a fixed number of tokens, whose keys and values come in and go out; weights
of 8 and 4 bits are MatMulNBits, which both know, made by ONNX Runtime's own quantiser with blocks of 64."""

import copy
import logging
import warnings
from pathlib import Path

import numpy as np
import torch

BLOCK = 64


class Step(torch.nn.Module):
    """A step as a function: keys and values of the tokens before, and behind it of one more."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, *past):
        from transformers import DynamicCache

        cache = DynamicCache(ddp_cache_data=list(zip(past[::2], past[1::2])))
        place = torch.full_like(ids, past[0].shape[2])
        logits = self.model(input_ids=ids, position_ids=place, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        return logits[:, -1].float(), *(t for layer in cache.layers for t in (layer.keys, layer.values))


def export(model, pairs, before: int, folder: Path) -> Path:
    """Writes step.onnx, its weights beside it. pairs: the static cache, for its shapes."""
    past = [t[:, :, :before].clone() for pair in pairs for t in pair]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(Step(model), (torch.tensor([[11]]), *past), dynamo=True, verbose=False)
        program.save(str(folder / "step.onnx"), external_data=True)
    return folder / "step.onnx"


def quantised(path: Path, bits: int) -> Path:
    """The file with every product by a constant matrix as MatMulNBits."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    model = onnx.load(path)
    _as_matmul(model.graph)
    logging.getLogger().setLevel(logging.WARNING)  # a line for each node
    quantiser = MatMulNBitsQuantizer(model, bits=bits, block_size=BLOCK, is_symmetric=True, accuracy_level=4)  # by products of bytes
    quantiser.process()
    out = path.with_name(f"step{bits}.onnx")
    quantiser.model.save_model_to_file(str(out), use_external_data_format=True)
    return out


def _as_matmul(graph):
    """Gemm by a constant as MatMul and Add, and a constant that is transposed as what comes of that: what the quantiser looks for."""
    import onnx

    constants = {t.name: t for t in graph.initializer}
    turned, nodes = {}, []
    for node in graph.node:
        if node.op_type == "Transpose" and node.input[0] in constants and len(constants[node.input[0]].dims) == 2:
            turned[node.output[0]] = node.input[0]
            continue
        gemm = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} if node.op_type == "Gemm" else {}
        if node.op_type == "Gemm" and gemm.get("alpha", 1) == gemm.get("beta", 1) == 1 and not gemm.get("transA"):
            weight = node.input[1]
            if gemm.get("transB"):
                turned[f"{weight}:turned"] = weight
                weight = f"{weight}:turned"
            product = node.output[0] if len(node.input) < 3 else f"{node.output[0]}:product"
            nodes.append(onnx.helper.make_node("MatMul", [node.input[0], weight], [product], f"{node.name}:product"))
            if len(node.input) > 2:
                nodes.append(onnx.helper.make_node("Add", [product, node.input[2]], [node.output[0]], f"{node.name}:bias"))
            continue
        nodes.append(copy.deepcopy(node))
    for name, source in turned.items():
        array = np.ascontiguousarray(onnx.numpy_helper.to_array(constants[source]).T)
        graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    del graph.node[:]
    graph.node.extend(nodes)
    read = {name for node in nodes for name in node.input}
    kept = [t for t in graph.initializer if t.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def onnxruntime(path: Path, threads: int, pairs, before: int):
    """A call that gives the logits. Nothing but logits is copied: results go where the runtime puts them."""
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names, results = [v.name for v in session.get_inputs()], [v.name for v in session.get_outputs()]
    given = [np.array([[11]]), *(t[:, :, :before].numpy() for pair in pairs for t in pair)]
    binding = session.io_binding()
    for name, value in zip(names, given, strict=True):
        binding.bind_ortvalue_input(name, runtime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)))
    for name in results:
        binding.bind_output(name)

    def call():
        session.run_with_iobinding(binding)
        return (binding.get_outputs()[0].numpy(),)

    return call


def openvino(path: Path, threads: int, pairs, before: int, bfloat16: bool):
    """Likewise. `bfloat16`: what products are computed in."""
    import openvino as ov

    model = ov.Core().read_model(str(path))
    wanted = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "bf16" if bfloat16 else "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = ov.compile_model(model, "CPU", wanted).create_infer_request()
    inputs = request.model_inputs
    request.set_input_tensor(0, ov.Tensor(np.array([[11]])))
    for number, value in enumerate((t[:, :, :before] for pair in pairs for t in pair), 1):
        tensor = ov.Tensor(inputs[number].element_type, list(value.shape))
        tensor.data[...] = 0  # as the cache of the others is; NumPy may lack the type
        request.set_input_tensor(number, tensor)

    def call():
        request.infer()
        return (request.get_output_tensor(0).data.copy(),)

    return call
