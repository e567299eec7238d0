# tests/torch/test_quantized.py: quantised graphs as torch.export's quantiser writes them
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401: defines the operators
from harness import BACKEND

pytestmark = pytest.mark.skipif(BACKEND != "hologram", reason="tests of this backend's kernels")
hologram_torch = pytest.importorskip("hologram_torch")
ops = torch.ops.quantized_decomposed
BYTES = {torch.uint8: (0, 255), torch.int8: (-128, 127)}


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setenv("HOLOGRAM_STRICT", "1")
    torch.manual_seed(0)


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend=hologram_torch.hologram, dynamic=False, options=options)


def native(function, *inputs):
    hologram_torch.reset_stats()
    got, want = compiled(function)(*inputs), function(*inputs)
    assert not hologram_torch.stats()["fallback_ops"]
    for x, y in zip(got, want, strict=True):
        assert x.dtype == y.dtype
        torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", BYTES)
def test_operators_have_the_bits_of_eager(dtype):
    low, high = BYTES[dtype]
    x = torch.randn(6, 5, 40) * 3
    x[0, 0, :6] = torch.tensor([0.0, -0.0, 1e9, -1e9, 0.05, 0.15])
    scales, zeros = torch.rand(5) + 0.01, torch.arange(5)
    tokens, offsets = torch.rand(6, 5, 1) + 0.01, torch.randint(low, high, (6, 5, 1))

    def run(x, scale, zero, scales, zeros, tokens, offsets):
        q = ops.quantize_per_tensor(x, 0.1, 3, low, high, dtype)
        r = ops.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
        s = ops.quantize_per_channel(x, scales, zeros, 1, low, high, dtype)
        t = ops.quantize_per_token(x, tokens, offsets, low, high, dtype)
        return (
            q, r, s, t,
            ops.dequantize_per_tensor(q, 0.1, 3, low, high, dtype),
            ops.dequantize_per_tensor.tensor(r, scale, zero, low, high, dtype),
            ops.dequantize_per_channel(s, scales, zeros, 1, low, high, dtype),
            ops.dequantize_per_channel(s, scales, None, 1, low, high, dtype),
            ops.dequantize_per_token(t, tokens, offsets, low, high, dtype, torch.float32),
        )  # fmt: skip

    native(run, x, torch.tensor(0.07), torch.tensor(7), scales, zeros, tokens, offsets)
    native(run, x, torch.tensor(0.07), torch.tensor(7), scales.double(), zeros.int(), tokens.double(), offsets)


def layer(k, n, zeros, dtype=torch.int8):
    made = torch.nn.Module()
    made.register_buffer("weight", torch.randint(-128, 128, (n, k), dtype=torch.int8).view(dtype))
    made.register_buffer("scales", torch.rand(n) / 100)
    made.register_buffer("zeros", zeros)
    made.register_buffer("bias", torch.randn(n))
    return made


# Rows, the left operand's type and zero point, the weights' zero points.
CASES = [
    (40, torch.uint8, 128, None), (40, torch.uint8, 0, "zeros"), (40, torch.uint8, 37, "some"),
    (40, torch.int8, 0, None), (40, torch.int8, -128, "zeros"), (40, torch.int8, 5, "some"), (3, torch.uint8, 9, "some"),
]  # fmt: skip


def some_zeros(kind, n):
    return None if kind is None else torch.randint(-9, 9, (n,)) * (kind == "some")


@pytest.mark.parametrize("rows, dtype, zero, zeros", CASES)
def test_a_linear_layer_is_a_product_of_bytes(rows, dtype, zero, zeros):
    k, n, (low, high) = 70, 45, BYTES[dtype]
    made = layer(k, n, some_zeros(zeros, n))

    def forward(x):
        x = ops.dequantize_per_tensor(x, 0.03, zero, low, high, dtype)
        w = ops.dequantize_per_channel(made.weight, made.scales, made.zeros, 0, -128, 127, torch.int8)
        return torch.nn.functional.linear(x, w, made.bias)

    x = torch.randint(-128, 128, (2, rows, k), dtype=torch.int8).view(dtype)
    w = made.weight.long() if zeros is None else made.weight.long() - made.zeros[:, None]
    sums = (x.long() - zero) @ w.t()
    made.forward = forward
    got = compiled(made)(x)
    if rows > 4:  # exact sums, then each factor once
        assert torch.equal(got, sums.float() * 0.03 * made.scales + made.bias)
    torch.testing.assert_close(got, (sums * 0.03 * made.scales.double() + made.bias).float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(compiled(made, reproducible=True)(x), got, rtol=1e-5, atol=1e-5)


def test_tokens_with_scales_of_their_own():
    x, w = torch.randint(-128, 128, (5, 30, 64), dtype=torch.int8), torch.randint(-128, 128, (33, 64), dtype=torch.int8)
    scales, offsets, columns = torch.rand(5, 30, 1), torch.randint(-20, 20, (5, 30, 1)), torch.rand(33)

    def run(x, scales, offsets, w, columns):
        x = ops.dequantize_per_token(x, scales, offsets, -128, 127, torch.int8, torch.float32)
        return torch.nn.functional.linear(x, ops.dequantize_per_channel(w, columns, None, 0, -128, 127, torch.int8))

    sums = (x.long() - offsets) @ w.long().t()
    assert torch.equal(compiled(run)(x, scales, offsets, w, columns), sums.float() * scales * columns)


def test_sums_that_32_bits_cannot_hold_are_float32():
    k = 33026
    x, w = torch.full((10, k), 255, dtype=torch.uint8), torch.full((k, 16), 255, dtype=torch.uint8)
    got = compiled(
        lambda x, w: ops.dequantize_per_tensor(x, 1.0, 0, 0, 255, torch.uint8)
        @ ops.dequantize_per_tensor(w, 1.0, 0, 0, 255, torch.uint8)
    )(x, w)
    torch.testing.assert_close(got, torch.full((10, 16), 255.0 * 255 * k), rtol=1e-5, atol=0)


def test_zero_points_beyond_the_bytes_stay_float32():
    x, w = torch.randint(0, 256, (20, 300), dtype=torch.uint8), torch.randint(-128, 128, (300, 16), dtype=torch.int8)
    zero = -1_000_000  # the sums of differences need more than 32 bits
    got = compiled(
        lambda x, w: ops.dequantize_per_tensor(x, 1.0, zero, 0, 255, torch.uint8)
        @ ops.dequantize_per_tensor(w, 1.0, -128, -128, 127, torch.int8)
    )(x, w)
    torch.testing.assert_close(got, ((x.double() - zero) @ (w.double() + 128)).float(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("axis", [0, 1])
def test_scales_along_the_summed_axis_stay_outside(axis):
    x, w = torch.randint(0, 256, (20, 32), dtype=torch.uint8), torch.randint(-128, 128, (32, 32), dtype=torch.int8)
    scales, zeros = torch.rand(32), torch.randint(-5, 5, (32,))

    def run(x, w, scales, zeros):
        w = ops.dequantize_per_channel(w, scales, zeros, axis, -128, 127, torch.int8)
        return ops.dequantize_per_tensor(x, 0.5, 3, 0, 255, torch.uint8) @ w

    by_axis = (slice(None), None) if axis == 0 else (None, slice(None))
    exact = ((x.double() - 3) * 0.5) @ ((w.double() - zeros[by_axis]) * scales[by_axis].double())
    torch.testing.assert_close(compiled(run)(x, w, scales, zeros), exact.float(), rtol=1e-5, atol=1e-2)
