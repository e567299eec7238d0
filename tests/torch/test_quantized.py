# tests/torch/test_quantized.py: quantised graphs as torch.export's quantiser writes them
import functools

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401: defines the operators
from harness import compile_fresh, module

hologram_torch = pytest.importorskip("hologram_torch")
import hologram  # noqa: E402

ops = torch.ops.quantized_decomposed
BYTES = {torch.uint8: (0, 255), torch.int8: (-128, 127)}
compiled = functools.partial(compile_fresh, dynamic=False)
pytestmark = pytest.mark.usefixtures("strict")


def native(function, *inputs):
    got, want = compiled(function)(*inputs), function(*inputs)
    assert not hologram_torch.stats()["fallback_ops"]
    for x, y in zip(got, want, strict=True):
        assert x.dtype == y.dtype
        torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", BYTES)
def test_operators_have_the_bits_of_eager(dtype):
    low, high = BYTES[dtype]
    x = torch.randn(6, 5, 40) * 3
    x[0, 0, :9] = torch.tensor([0.0, -0.0, 1e9, -1e9, 0.05, 0.15, float("nan"), 1e30, -float("inf")])
    scales, zeros = torch.rand(5) + 0.01, torch.arange(5)
    tokens, offsets = torch.rand(6, 5, 1) + 0.01, torch.randint(low, high, (6, 5, 1))

    def run(x, scale, zero, scales, zeros, tokens, offsets):
        q = ops.quantize_per_tensor(x, 0.1, 3, low, high, dtype)
        r = ops.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
        s = ops.quantize_per_channel(x, scales, zeros, 1, low, high, dtype)
        t = ops.quantize_per_token(x, tokens, offsets, low, high, dtype)
        return (
            q, r, s, t, *ops.choose_qparams.tensor(x[1:] * 0.01, low, high, 2**-12, dtype),
            ops.quantize_per_tensor(x, 0.1, 0, low, high, dtype),
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
    sums = (x.long() - zero) @ (made.weight.long() - (0 if zeros is None else made.zeros[:, None])).t()
    made.forward = forward
    got = compiled(made)(x)
    if rows > 4:  # exact sums, then each factor once
        assert torch.equal(got, sums.float() * 0.03 * made.scales + made.bias)
    torch.testing.assert_close(got, (sums * 0.03 * made.scales.double() + made.bias).float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(compiled(made, options={"reproducible": True})(x), got, rtol=1e-5, atol=1e-5)


def floats(q, zero):
    return ops.dequantize_per_tensor(q, 1.0, zero, *BYTES[q.dtype], q.dtype)


def test_sums_that_32_bits_cannot_hold_are_float32():
    k = 33026
    x, w = torch.full((10, k), 255, dtype=torch.uint8), torch.full((k, 16), 255, dtype=torch.uint8)
    got = compiled(lambda x, w: floats(x, 0) @ floats(w, 0))(x, w)
    torch.testing.assert_close(got, torch.full((10, 16), 255.0 * 255 * k), rtol=1e-5, atol=0)


def test_zero_points_beyond_the_bytes_stay_float32():
    x, w = torch.randint(0, 256, (20, 300), dtype=torch.uint8), torch.randint(-128, 128, (300, 16), dtype=torch.int8)
    zero = -1_000_000  # the sums of differences need more than 32 bits
    got = compiled(lambda x, w: floats(x, zero) @ floats(w, -128))(x, w)
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


# Image, weight, stride, padding, dilation, groups.
SHAPES = {
    "points": ((2, 36, 9, 11), (40, 36, 1, 1), 1, 0, 1, 1),
    "strided points": ((2, 64, 9, 11), (33, 64, 1, 1), 2, 0, 1, 1),
    "three by three": ((2, 32, 9, 11), (48, 32, 3, 3), 1, 1, 1, 1),
    "strided": ((1, 16, 13, 12), (40, 16, 3, 3), 2, 1, 1, 1),
    "dilated": ((1, 20, 13, 12), (17, 20, 3, 2), (1, 2), (2, 3), 2, 1),
    "first layer": ((1, 3, 30, 33), (64, 3, 7, 7), 2, 3, 1, 1),
    "groups": ((2, 64, 8, 9), (96, 32, 3, 3), 1, 1, 1, 2),
    "a line": ((2, 24, 40), (32, 24, 5), 1, 2, 1, 1),
    "no batch": ((24, 9, 10), (32, 24, 3, 3), 1, 1, 1, 1),
}
ZEROS = [(torch.uint8, 0, None), (torch.uint8, 128, "zeros"), (torch.uint8, 37, "some"), (torch.int8, -128, None), (torch.int8, 5, "some")]


def convolved(layer, x, scale, zero, dtype, stride, padding, dilation, groups):
    """As a quantised graph has it, with a quantised result."""
    low, high = BYTES[dtype]
    x = ops.dequantize_per_tensor(x, scale, zero, low, high, dtype)
    w = ops.dequantize_per_channel(layer.weight, layer.scales, layer.zeros, 0, -128, 127, torch.int8)
    rank = w.dim() - 2
    y = (torch.nn.functional.conv2d if rank == 2 else torch.nn.functional.conv1d)(x, w, layer.bias, stride, padding, dilation, groups)
    return y, ops.quantize_per_tensor(torch.relu(y), 0.9, 3, 0, 255, torch.uint8)


def exact_sums(layer, x, zero, *geometry):
    w = layer.weight.double()
    if layer.zeros is not None:
        w = w - layer.zeros.reshape(-1, *[1] * (w.dim() - 1))
    return (torch.nn.functional.conv2d if w.dim() == 4 else torch.nn.functional.conv1d)(x.double() - zero, w, None, *geometry)


def convolution_layer(shape, zeros):
    made = layer(1, shape[0], some_zeros(zeros, shape[0]))
    made.weight = torch.randint(-128, 128, shape, dtype=torch.int8)
    return made


# Each kind of zero with one shape, each shape with two kinds.
CONVOLUTIONS = [("three by three", *z) for z in ZEROS] + [(s, *ZEROS[(n + k) % 5]) for n, s in enumerate(SHAPES) for k in (0, 2)]


@pytest.mark.parametrize("shape, dtype, zero, zeros", list(dict.fromkeys(CONVOLUTIONS)))
def test_a_convolution_is_a_product_of_bytes(shape, dtype, zero, zeros):
    image, weight, *geometry = SHAPES[shape]
    made = convolution_layer(weight, zeros)
    x = torch.randint(-128, 128, image, dtype=torch.int8).view(dtype)
    made.forward = lambda x: convolved(made, x, 0.03, zero, dtype, *geometry)
    sums = exact_sums(made, x, zero, *geometry)

    def by_channel(v):
        return v.reshape(-1, *[1] * (len(weight) - 2))

    want = sums.float() * 0.03 * by_channel(made.scales) + by_channel(made.bias)  # exact sums, then each factor once
    got, quantised = compiled(made)(x)
    assert not hologram_torch.stats()["fallback_ops"]
    assert torch.equal(got, want)
    assert torch.equal(quantised, ops.quantize_per_tensor(torch.relu(want), 0.9, 3, 0, 255, torch.uint8))
    eager, eager_quantised = made.forward(x)
    torch.testing.assert_close(got, eager, rtol=1e-5, atol=1e-4)
    assert (quantised.int() - eager_quantised.int()).abs().max() <= 1
    if zero == 37:
        torch.testing.assert_close(compiled(made, options={"reproducible": True})(x)[0], eager, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("image, weight, groups", [
    ((2, 48, 9, 9), (48, 1, 3, 3), 48), ((2, 32, 9, 9), (32, 4, 3, 3), 8), ((1, 64, 9, 9), (5, 64, 1, 1), 1),
    ((1, 256, 2, 2), (64, 256, 1, 1), 1), ((1, 3840, 3, 3), (16, 3840, 3, 3), 1), ((1, 3, 9, 9), (32, 3, 3, 3), 1),
])  # fmt: skip
def test_other_convolutions_multiply_dequantised_numbers(image, weight, groups):
    made = convolution_layer(weight, "some")
    x = torch.randint(0, 256, image, dtype=torch.uint8)
    made.forward = lambda x: convolved(made, x, 0.03, 9, torch.uint8, 1, weight[2] // 2, 1, groups)
    native_result, eager = compiled(made)(x)[0], made.forward(x)[0]
    torch.testing.assert_close(native_result, eager, rtol=1e-5, atol=1e-2)


def test_an_image_whose_zero_point_is_a_tensor():
    made = convolution_layer((32, 24, 3, 3), "some")
    x, scale, zero = torch.randint(0, 256, (2, 24, 9, 9), dtype=torch.uint8), torch.tensor(0.03), torch.tensor(37)

    def run(x, scale, zero, padding):
        x = ops.dequantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
        w = ops.dequantize_per_channel(made.weight, made.scales, made.zeros, 0, -128, 127, torch.int8)
        return torch.nn.functional.conv2d(x, w, None, 1, padding)

    want = exact_sums(made, x, 37).float() * scale * made.scales.reshape(-1, 1, 1)
    assert torch.equal(compiled(run)(x, scale, zero, 0), want)
    torch.testing.assert_close(compiled(run)(x, scale, zero, 1), run(x, scale, zero, 1), rtol=1e-5, atol=1e-3)


def test_a_batch_of_a_size_known_later():
    made = convolution_layer((32, 16, 3, 3), "some")
    made.forward = lambda x: convolved(made, x, 0.03, 9, torch.uint8, 2, 1, 1, 1)
    run = compile_fresh(made, dynamic=True)
    for batch in (2, 5, 3):
        x = torch.randint(0, 256, (batch, 16, 9, 10), dtype=torch.uint8)
        want = exact_sums(made, x, 9, 2, 1).float() * 0.03 * made.scales.reshape(-1, 1, 1) + made.bias.reshape(-1, 1, 1)
        assert torch.equal(run(x)[0], want)


def test_a_graph_of_torch_ao():
    """Convolutions, an addition, pooling and a linear layer as PyTorch's own tools quantise them."""
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import _convert_to_reference_decomposed_fx, prepare_fx

    @module(a=lambda: torch.nn.Conv2d(3, 32, 7, 2, 3), b=lambda: torch.nn.Conv2d(32, 32, 3, 1, 1), c=lambda: torch.nn.Conv2d(32, 32, 1),
            d=lambda: torch.nn.Conv2d(32, 32, 3, 1, 1, groups=32), bn=lambda: torch.nn.BatchNorm2d(32),
            last=lambda: torch.nn.Linear(32, 10))  # fmt: skip
    def Net(self, x):
        x = torch.relu(self.bn(self.a(x)))
        x = torch.relu(self.c(self.b(x)) + x)
        return self.last(self.d(x).mean((2, 3)))

    x = torch.randn(4, 3, 40, 40)
    prepared = prepare_fx(Net().eval(), get_default_qconfig_mapping("x86"), (x,))
    prepared(x)
    net = _convert_to_reference_decomposed_fx(prepared)
    with torch.no_grad():
        got, want = compiled(net)(x), net(x)
    assert not hologram_torch.stats()["fallback_ops"]
    torch.testing.assert_close(got, want, rtol=0, atol=0.05)
    assert (got - want).abs().mean() < 0.005


@pytest.mark.parametrize("config, four", [
    ("Int8DynamicActivationInt8WeightConfig", None), ("Int8WeightOnlyConfig", None), ("IntxWeightOnlyConfig", "granularity"),
    ("Int8DynamicActivationIntxWeightConfig", "weight_granularity"),
])  # fmt: skip
@torch.no_grad()
def test_models_of_torchao(config, four, tmp_path):
    quantization = pytest.importorskip("torchao.quantization")
    net, x = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.Linear(96, 32)).eval(), torch.randn(20, 64)
    words = {"weight_dtype": torch.int4, four: quantization.PerGroup(32)} if four else {}
    quantization.quantize_(net, getattr(quantization, config)(**words))
    close_to_eager(net, x)
    hologram_torch.export(net, (x,), tmp_path / "m.holo", isas=())
    got, weight = hologram.load(tmp_path / "m.holo")(x.numpy()), net[0].weight
    torch.testing.assert_close(torch.from_numpy(got), net(x), rtol=1e-4, atol=1e-4)
    frozen = hologram_torch.freeze(net, (x,), release_weights=True)  # not those that others wrap
    for change in (lambda new: weight.qdata.copy_(new), lambda new: setattr(weight, "qdata", new)):
        change(weight.qdata.flip(0))
        torch.testing.assert_close(frozen(x), net(x), rtol=1e-4, atol=1e-4)


def test_operators_known_after_an_export_are_taken_apart(tmp_path):
    hologram_torch.export(torch.nn.ReLU(), (torch.ones(2),), tmp_path / "m.holo", isas=())
    with torch.library._scoped_library("later", "FRAGMENT") as library:  # as torchao's, with its import
        library.impl(library.define("twice(Tensor x) -> Tensor"), lambda x: x + x, "CompositeImplicitAutograd")
        hologram_torch.export(module()(lambda self, x: torch.ops.later.twice(x))(), (torch.ones(2),), tmp_path / "m.holo", isas=())
    assert hologram.load(tmp_path / "m.holo")(torch.ones(2).numpy()).tolist() == [2, 2]


@pytest.mark.parametrize("dynamic", [False, True])
@torch.no_grad()
def test_models_of_pt2e(dynamic):
    pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e")
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    layers = [torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32 * 36, 32), torch.nn.Tanh()]
    net, x = torch.nn.Sequential(*layers, torch.nn.Linear(32, 16)).eval(), torch.randn(12, 3, 8, 8)
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=dynamic))
    prepared = pt2e.prepare_pt2e(torch.export.export(net, (x,)).module(), quantizer)
    prepared(x)
    close_to_eager(pt2e.convert_pt2e(prepared), x)


def close_to_eager(net, x):
    got, want = compiled(net)(x), net(x)
    assert not hologram_torch.stats()["fallback_ops"]
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
