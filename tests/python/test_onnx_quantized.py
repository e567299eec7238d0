# tests/python/test_onnx_quantized.py: products of bytes in quantised ONNX models
import hologram
import numpy as np
import pytest

pytest.importorskip("onnx")
import onnx  # noqa: E402
from hologram.cli import main  # noqa: E402
from onnx import helper  # noqa: E402
from onnx_models import model  # noqa: E402

RNG = np.random.default_rng(11)


def kernels(function):
    """The text of the compiled kernels."""
    return "\n".join(function._function.dump("atlas"))


def quantised(x, scale, zero, dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.clip(np.rint(x / scale) + zero, low, high).astype(dtype)


def pair(name, source, scale, zero):
    """QuantizeLinear and DequantizeLinear behind one another."""
    return [
        helper.make_node("QuantizeLinear", [source, scale, zero], [name + "_q"]),
        helper.make_node("DequantizeLinear", [name + "_q", scale, zero], [name]),
    ]


@pytest.mark.parametrize("zero, weight_zero", [(np.uint8(128), np.int8(0)), (np.uint8(117), np.int8(0)), (np.uint8(3), np.int8(9))])
def test_linear_layers_between_quantisers_are_products_of_bytes(zero, weight_zero):
    x, w = RNG.standard_normal((32, 64)).astype(np.float32), RNG.standard_normal((64, 48)).astype(np.float32)
    scale, steps = np.float32(0.03), (np.abs(w).max(0) / 100).astype(np.float32)
    zeros = np.full(48, weight_zero)
    q = quantised(w, steps, weight_zero, np.int8)
    constants = {"scale": scale, "zero": zero, "q": q, "steps": steps, "zeros": zeros, "bias": RNG.standard_normal(48).astype(np.float32)}
    nodes = [
        *pair("a", "x", "scale", "zero"),
        helper.make_node("DequantizeLinear", ["q", "steps", "zeros"], ["w"], axis=1), helper.make_node("Gemm", ["a", "w", "bias"], ["y"]),
    ]  # fmt: skip
    function = hologram.from_onnx(model(nodes, {"x": ("float32", ["n", 64])}, ["y"], constants))
    rounded = (quantised(x, scale, zero, np.uint8).astype(np.float64) - zero) * scale
    want = rounded @ ((q.astype(np.float64) - weight_zero) * steps) + constants["bias"]
    np.testing.assert_allclose(function(x), want, rtol=1e-5, atol=1e-5)
    assert "acc i32" in kernels(function)
    exact = hologram.from_onnx(model(nodes, {"x": ("float32", ["n", 64])}, ["y"], constants), reproducible=True)
    np.testing.assert_allclose(exact(x), want, rtol=1e-4, atol=1e-4)
    assert "acc i32" not in kernels(exact)


def test_convolutions_between_quantisers_are_products_of_bytes():
    x, w = RNG.standard_normal((2, 8, 9, 9)).astype(np.float32), RNG.standard_normal((16, 8, 3, 3)).astype(np.float32)
    constants = {
        "scale": np.float32(0.02), "zero": np.uint8(120), "q": quantised(w, np.float32(0.03), 0, np.int8), "step": np.float32(0.03),
        "none": np.int8(0),
    }  # fmt: skip
    nodes = [
        *pair("a", "x", "scale", "zero"),
        helper.make_node("DequantizeLinear", ["q", "step", "none"], ["w"]),
        helper.make_node("Conv", ["a", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    function = hologram.from_onnx(model(nodes, {"x": ("float32", [2, 8, 9, 9])}, ["y"], constants))
    a = (quantised(x, np.float32(0.02), 120, np.uint8).astype(np.float64) - 120) * 0.02
    a = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), (2, 3))
    want = np.einsum("nchwij,ocij->nohw", windows, constants["q"].astype(np.float64) * 0.03)
    np.testing.assert_allclose(function(x), want, rtol=1e-5, atol=1e-4)
    assert "acc i32" in kernels(function)


def test_dynamic_quantisation_is_a_product_of_bytes():
    x, w = RNG.standard_normal((3, 40)).astype(np.float32), RNG.integers(-100, 100, (40, 24)).astype(np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["floats"], to=1), helper.make_node("Mul", ["floats", "scale"], ["y"]),
    ]  # fmt: skip
    function = hologram.from_onnx(model(nodes, {"x": ("float32", ["n", 40])}, ["y", "scale"], {"w": w}))
    high, low = max(x.max(), 0), min(x.min(), 0)
    scale = np.float32(high - low) / 255
    zero = np.clip(np.rint(-low / scale), 0, 255)
    want = (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) @ w.astype(np.float64) * scale
    np.testing.assert_allclose(function(x)[0], want, rtol=1e-5, atol=1e-4)
    assert function.stats() == {"fallback_ops": {}, "steps": {}}
    assert function(0 * x)[1] == 1  # as ONNX Runtime has it; ONNX's reference divides that by 255


WORDS, WIDTH, HIDDEN = 40, 64, 96


def feed_forward():
    """A table, a linear layer as PyTorch's exporter writes it, one with the matrix as it is, and a Gemm."""
    rng = np.random.default_rng(5)
    table, a = rng.standard_normal((WORDS, WIDTH)), rng.standard_normal((HIDDEN, WIDTH)) / 8
    b, c = rng.standard_normal((HIDDEN, WIDTH)) / 10, rng.standard_normal((32, WIDTH)) / 8
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]), helper.make_node("Transpose", ["a"], ["at"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "at"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["s"]), helper.make_node("Gemm", ["s", "c", "bias"], ["y"], transB=1),
    ]  # fmt: skip
    constants = {"table": table, "a": a, "b": b, "c": c, "bias": rng.standard_normal(32)}
    inputs = [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["n"])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 32])]
    arrays = [onnx.numpy_helper.from_array(v.astype(np.float32), name) for name, v in constants.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


MODES = [("dynamic-int8", 0.02, 0.3), ("static-int8", 0.04, 0.3), ("weight-int8", 0.015, 0.3), ("weight-int4", 0.2, 0.24)]


@pytest.mark.parametrize("mode, close, share", MODES)
def test_float_models_get_weights_of_few_bits(mode, close, share, tmp_path, capsys):
    (tmp_path / "m.onnx").write_bytes(feed_forward().SerializeToString())
    exact, path = hologram.from_onnx(tmp_path / "m.onnx"), str(tmp_path / "m.holo")
    static = mode == "static-int8"
    np.savez(tmp_path / "calls.npz", ids=np.arange(WORDS))
    words = ["--calibrate", str(tmp_path / "calls.npz")] if static else []
    assert main(["compile", str(tmp_path / "m.onnx"), "-o", path, "--quantize", mode, "--isa", "sse42", *words]) == 0
    archive = hologram.load(path)
    model = hologram.from_onnx(tmp_path / "m.onnx", quantize=mode, calibrate=[np.arange(WORDS)] if static else None)
    for n in (1, 20):
        ids = np.arange(n)
        want, found = exact(ids), model(ids)
        assert 0 < np.linalg.norm(found - want) < close * np.linalg.norm(want)
        np.testing.assert_allclose(archive(ids), found, rtol=1e-4, atol=1e-4)
    floats = 4 * (WORDS * WIDTH + 2 * HIDDEN * WIDTH + 32 * WIDTH + 32)
    assert sum(np.asarray(v).nbytes for v in archive.tensors.values()) < share * floats


@pytest.mark.parametrize("mode, changed", [("dynamic-int8", "a"), ("static-int8", "ac"), ("weight-int8", "")])
def test_convolutions_of_float_models_get_bytes_where_these_are_faster(mode, changed):
    """A dense one with a border, one in groups of few numbers, one of other strides, whose windows share less."""
    shapes = {"a": (32, 8, 3, 3), "b": (32, 1, 3, 3), "c": (32, 32, 3, 3)}
    rng = np.random.default_rng(7)
    constants = {name: (rng.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32) for name, shape in shapes.items()}
    constants["bias"] = rng.standard_normal(32).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "a", "bias"], ["h"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "b"], ["s"], group=32, auto_pad="SAME_UPPER"),
        helper.make_node("Conv", ["s", "c"], ["y"], strides=[2, 2]),
    ]  # fmt: skip
    proto = model(nodes, {"x": ("float32", ["n", 8, 11, 11])}, ["y"], constants)
    calls = [rng.standard_normal((4, 8, 11, 11)).astype(np.float32) for _ in range(3)]
    function = hologram.from_onnx(proto, quantize=mode, calibrate=[{"x": x} for x in calls] if mode == "static-int8" else None)
    want, found = hologram.from_onnx(proto)(calls[0]), function(calls[0])
    assert np.linalg.norm(found - want) < 0.02 * np.linalg.norm(want) and bool(changed) != np.array_equal(found, want)
    assert ("acc i32" in kernels(function)) == bool(changed) and not function.stats()["fallback_ops"]
    held = function.graph.constants
    assert {name[0] for name in held if name.endswith(":bytes")} == set(changed) == set(shapes) - set(held)


@pytest.mark.parametrize(
    "words, message",
    [
        ({"quantize": "int8"}, "quantize: expected one of dynamic-int8, static-int8, weight-int8, weight-int4, got 'int8'"),
        ({"quantize": "static-int8"}, "calibrate: expected calls of the model for quantize='static-int8', got 0 calls"),
        ({"calibrate": [np.arange(3)]}, "calibrate: expected None for quantize=None, got 1 calls"),
        ({"quantize": "static-int8", "calibrate": [{"x": 1}]}, "calibrate: expected all inputs, got none for 'ids'"),
        ({"quantize": "static-int8", "calibrate": [np.arange(0)]}, "calibrate: no call gave values to"),
    ],
)
def test_wrong_words_for_quantisation_are_named(words, message):
    with pytest.raises(ValueError, match=message):
        hologram.from_onnx(feed_forward(), **words)
