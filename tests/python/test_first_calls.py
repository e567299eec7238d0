# tests/python/test_first_calls.py: first calls by the loops that come with the library, and their bits
"""What no compiler had time for gives the bits of what one made. Each instruction set has loops of its own: the test runs this file."""

import os
import subprocess
import sys

import numpy as np
import pytest

import hologram
from hologram._jit import Jitted

try:
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    helper = None

ISAS = ("avx512", "avx2")


def floats(*shape):
    """Numbers of all sizes, among them infinities, NaN and both zeros."""
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    flat = x.reshape(-1)
    flat[:: max(1, flat.size // 7)] *= np.float32(1e30)
    flat[1::97], flat[2::101], flat[3::103], flat[4::107] = np.inf, np.nan, 0.0, -0.0
    return x


def matrix(*shape):
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def norm(x, scale, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-5)) * scale + bias


INTEGERS = np.random.default_rng(3).integers(-(1 << 40), 1 << 40, (37, 300))
ROWS = {
    "pad": (lambda x: np.pad(x.transpose(2, 0, 1)[:, ::-1], ((0, 0), (1, 2), (2, 0)), constant_values=7), floats(70, 30, 90)),
    "functions": (lambda x: np.tanh(x) + np.exp(-x) * np.log1p(np.abs(x)) + np.arctan(x), floats(3, 5000)),
    "extremes": (lambda x, y: np.minimum(x, y) + np.fmax(x, y) * np.sign(x) - np.floor(y), floats(40, 100), floats(100, 40).T),
    "choices": (lambda x, y: np.where((x < y) | np.isnan(x), x, np.where(x == y, 2, y)) * (x != x), floats(40, 100), floats(40, 1)),
    "integers": (lambda x: ((x ^ 12345) << 3) + np.maximum(x >> 2, -x) * (x & 255) + np.abs(~x), INTEGERS),
    "conversions": (lambda x: (x * 1000).astype(np.int32) + (x > 0) + x.astype(np.float64).astype(np.int64), matrix(9, 70)),
    "rows": (softmax, floats(60, 129)),
    "normal": (norm, matrix(50, 384), matrix(384), matrix(384)),
    "columns": (lambda x: x.sum(axis=0) + x.max(axis=0) * x.min(axis=0), matrix(9000, 70)),
    "few columns": (lambda x: (x * x).sum(axis=(0, 1)) * np.prod(x[:50, 0], axis=0), matrix(300, 5, 3)),
    "a long row": (lambda x: np.array([x.sum(), x.max(), x.min()]), matrix(3, 30000)),
    "windows": (lambda x: np.lib.stride_tricks.sliding_window_view(x, (3, 3)).max(axis=(2, 3)), floats(50, 70)),
    "joined": (lambda x, y: np.concatenate([x, y * 2, x[:, ::3]], axis=1), floats(40, 100), floats(40, 17)),
    "found": (lambda x, i: x[np.abs(i) % 300] * 2, floats(300, 60), INTEGERS[0, :77]),
    "product": (lambda x, w, b: np.maximum(x @ w + b, 0), matrix(100, 500), matrix(500, 70), matrix(70)),
    "vector": (lambda x, w: (x * 2) @ w, matrix(1, 1000), matrix(1000, 515)),
    "products": (lambda x, y: softmax(x @ y.transpose(0, 2, 1)) @ y, matrix(4, 30, 20), matrix(4, 50, 20)),
    "nothing": (lambda x: x @ x.T + 1, matrix(5, 0)),
}  # fmt: skip


def compare():
    for name, (f, *arrays) in ROWS.items():
        quick, good = Jitted(f, False, False, quickly=True), hologram.jit(f)
        first, want = quick(*arrays), good(*arrays)
        reports = quick.reports()
        assert [r["compiled"] for r in reports] == [0], f"{name}: {reports}"
        assert np.array_equal(first, want, equal_nan=True), name
        quick.finish()
        assert np.array_equal(quick(*arrays), want, equal_nan=True), name


def onnx_function(shape, result, weights, nodes):
    """An ONNX model of one input as a function."""
    tensors = [numpy_helper.from_array(w, name) for name, w in weights.items()]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in zip("xy", (shape, result))]
    return hologram.from_onnx(helper.make_model(helper.make_graph(nodes, "model", values[:1], values[1:], tensors)))._function


def compare_depthwise():
    """The lanes of a fused expansion have rows of its result of their own."""
    nodes = [helper.make_node("Conv", ["x", "e"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Conv", ["b", "d"], ["y"], pads=[1] * 4, strides=[2, 2], group=300)]  # fmt: skip
    call = onnx_function((1, 16, 56, 56), (1, 300, 28, 28), {"e": matrix(300, 16, 1, 1), "d": matrix(300, 1, 3, 3)}, nodes)
    x = matrix(1, 16, 56, 56)
    first = call(x)[0]
    assert [r["compiled"] for r in call.reports()] == [0]
    call.finish()
    assert np.array_equal(call(x)[0], first)


def compare_scaled():
    """The scales of weights of bytes may be factors of sums."""
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["v"], axis=1), helper.make_node("MatMul", ["x", "v"], ["y"])]
    weights = {"w": INTEGERS[:32, :64].astype(np.int8), "s": np.abs(matrix(64)), "z": INTEGERS[0, :64].astype(np.int8)}
    call = onnx_function((5, 32), (5, 64), weights, nodes)
    first = call(matrix(5, 32))[0]
    call.finish()
    assert np.array_equal(call(matrix(5, 32))[0], first)


def compare_winograd():
    """3 x 3, by Winograd's transforms; sums that are not finite are the direct ones."""
    shape, weights = (1, 32, 11, 10), {"w": matrix(32, 32, 3, 3), "b": matrix(32)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"])]
    call, plain, special = onnx_function(shape, shape, weights, nodes), matrix(*shape), matrix(*shape)
    special[0, 3, 4, 5], special[0, 7, 9, 9] = np.inf, 3e38
    first = [call(x)[0] for x in (plain, special)]
    assert [np.isfinite(y).all() for y in first] == [True, False] and [r["compiled"] for r in call.reports()] == [0]
    call.finish()
    assert all(np.array_equal(call(x)[0], y, equal_nan=True) for x, y in zip((plain, special), first, strict=True))
    once = onnx_function(shape, shape, weights, nodes)
    once(plain)
    (compiled,) = once._flat
    assert compiled.calls[0].executable.cached_bytes == 0  # packed weights are for one call
    once.finish()
    assert compiled.calls[0].executable.cached_bytes > 0 and np.array_equal(once(plain)[0], first[0])


@pytest.mark.parametrize("isa", ISAS)
def test_first_calls_compile_nothing_and_have_the_bits_of_good_kernels(isa, tmp_path):
    environment = os.environ | {"HOLOGRAM_CPU_ISA": isa, "HOLOGRAM_CACHE_DIR": str(tmp_path)}
    probe = subprocess.run([sys.executable, "-c", "import hologram; hologram._core.shared_runtime(None)"], env=environment)
    if probe.returncode:
        pytest.skip(f"this machine has no {isa}")
    from checks import python  # pytest's folders are not those of the program

    python(__file__, env=environment)


if __name__ == "__main__":
    compare()
    if helper:
        compare_depthwise()
        compare_scaled()
        compare_winograd()
