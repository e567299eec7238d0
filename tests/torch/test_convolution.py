# tests/torch/test_convolution.py: convolution and pooling, forward and backward, against eager
import copy
import functools

import pytest
import torch
import torch.nn.functional as F
import hologram_torch
from hologram import _core
from harness import backend_stats, compile_fresh, gradients, normal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

QUICK = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def native(function, *inputs, truth=None, tolerance=3e-6):
    """Compiled without a call into PyTorch, with an error of at most `tolerance` of the largest."""
    compiled = compile_fresh(function, dynamic=False)
    with torch.no_grad():
        expected, got = function(*inputs), compiled(*inputs)
        exact = (truth or function)(*(t.double() if t.is_floating_point() else t for t in inputs))
    assert backend_stats()["fallback_ops"] == {} and backend_stats()["failed_graphs"] == 0
    assert got.stride() == expected.stride() and got.dtype == expected.dtype
    assert (got.double() - exact).abs().max().item() <= tolerance * max(exact.abs().max().item(), 1.0)
    return got


def laid(*shape, last):
    return normal(*shape).to(memory_format=torch.channels_last if last else torch.contiguous_format)


def lying(cases):
    """Each case as planes and, images, channels last."""
    return [(*case, last) for case in cases for last in (False, True)[: 1 + (len(case[-1]) == 2)]]


def steps_of(profile) -> list:
    return [step for graph in profile._graphs for step in graph.plan["steps"]]


@st.composite
def convolutions(draw):
    """Arguments of a convolution of one to three axes and the shapes of its operands."""
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))
    groups = draw(st.sampled_from([1, 1, 2, 4]))
    per_axis = lambda low, high: [draw(st.integers(low, high)) for _ in range(rank)]  # noqa: E731
    into, out = groups * draw(st.integers(1, 6)), groups * draw(st.integers(1, 20))
    kernel, stride, dilation = per_axis(1, 4), per_axis(1, 3), per_axis(1, 2)
    padding = [draw(st.integers(0, k)) for k in kernel]
    image = [draw(st.integers(max(d * (k - 1) + 1 - 2 * p, 1), 11)) for k, d, p in zip(kernel, dilation, padding, strict=True)]
    batch = draw(st.integers(1, 3))
    return (batch, into, *image), (out, into // groups, *kernel), stride, padding, dilation, groups


@QUICK
@given(convolutions(), st.booleans())
def test_convolution(case, biased):
    x, w, stride, padding, dilation, groups = case

    def f(x, w, b):
        return torch.convolution(x, w, b if biased else None, stride, padding, dilation, False, [0], groups)

    native(f, normal(*x), normal(*w, seed=1), normal(w[0], seed=2))


@QUICK
@given(convolutions(), st.data())
def test_transposed_convolution(case, data):
    x, w, stride, padding, dilation, groups = case
    shape = (w[0], x[1] // groups, *w[2:])
    more = [data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)]
    size = [
        (n - 1) * s - 2 * p + d * (k - 1) + a + 1
        for n, s, p, d, k, a in zip(x[2:], stride, padding, dilation, w[2:], more, strict=True)
    ]
    if min(size) < 1:
        return

    def f(y, w, b):
        return torch.convolution(y, w, b, stride, padding, dilation, True, more, groups)

    native(f, normal(x[0], w[0], *x[2:]), normal(*shape, seed=1), normal(x[1], seed=2))


def check_gradients(f, *inputs, left=False, bound=1e-4):
    (expected, *wanted), (got, *found) = (gradients(g, inputs) for g in (f, compile_fresh(f, dynamic=False)))
    assert left or backend_stats()["fallback_ops"] == {}
    assert got.stride() == expected.stride()
    torch.testing.assert_close([got, *found], [expected, *wanted], rtol=bound, atol=bound)


@QUICK
@given(convolutions())
def test_gradients_of_a_convolution(case):
    x, w, stride, padding, dilation, groups = case

    def f(x, w, b):
        return torch.convolution(x, w, b, stride, padding, dilation, False, [0], groups)

    check_gradients(f, normal(*x), normal(*w, seed=1), normal(w[0], seed=2))


@pytest.mark.parametrize(
    "into, out, groups, kernel, stride, padding, dilation, size, last",
    lying([
        (24, 24, 24, 3, 1, 1, 1, (12, 16)),
        (24, 48, 24, 3, 2, 1, 1, (9, 8)),  # two results a channel
        (64, 64, 16, 3, 1, 1, 1, (7, 14)),
        (32, 64, 8, (3, 5), (2, 1), 0, 1, (7, 12)),
        (20, 20, 20, 3, 1, 1, 1, (2, 390)),  # lines that are too long
        (16, 16, 16, 5, 1, 2, 1, (40,)),
    ]),
)  # fmt: skip
def test_gradients_of_narrow_groups(into, out, groups, kernel, stride, padding, dilation, size, last):
    """Sums for each tap run along the channels of all groups, block of pixels by block."""
    rank = len(size)
    sizes = (kernel,) * rank if isinstance(kernel, int) else kernel
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]

    def f(x, w, b):
        return convolve(x, w, b, stride, padding, dilation, groups)

    x = laid(2, into, *size, last=last)
    check_gradients(f, x, normal(out, into // groups, *sizes, seed=1), normal(out, seed=2))


@pytest.mark.parametrize(
    "kernel, stride, padding, more, size, last",
    lying([
        (4, 2, 1, 0, (6, 5)),  # two shifts along each axis
        (8, 4, 2, 3, (9,)),
        (12, 4, 6, 1, (7,)),  # the padding is more than a stride
        ((4, 3, 4), (2, 1, 2), (1, 1, 3), 0, (3, 4, 5)),
        (6, 4, 1, 0, (5, 6)),  # kinds of several numbers of taps
        (7, 2, 3, 1, (6, 5)),
    ]),
)  # fmt: skip
@pytest.mark.parametrize("out", [3, 24])
def test_transposed_with_strides(kernel, stride, padding, more, size, last, out):
    """One product for all kinds of pixels where they have as many taps or few results; its result may leave as planes."""
    rank = len(size)
    layer = (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d)[rank - 1]
    layer = layer(20, out, kernel, stride, padding, more)
    x = laid(2, 20, *size, last=last)
    native(layer, x, truth=copy.deepcopy(layer).double())
    x[0, 3, -1] = float("inf")  # reaches what reads it, not its neighbours
    with torch.no_grad():
        expected, got = layer(x), compile_fresh(layer, dynamic=False)(x)
    assert torch.equal(got.isfinite(), expected.isfinite())
    kernels = hologram_torch.explain(layer, x).graphs[0].kernels()
    uneven = kernel in (6, 7) and out > 4
    assert (len([k for k in kernels if "dot" in k["name"]]) == 1) != uneven
    if last and out == 24 and (kernel, padding) == (4, 1):
        assert len(kernels) == 1  # which puts the kinds where they belong


@pytest.mark.parametrize(
    "into, channels, kernel, stride, size, batch",
    [(3, 32, 3, 2, (24, 32), 2), (1, 16, 3, 1, (9, 14), 1), (2, 16, (3, 5), (1, 2), (7, 24), 1)],
)
@pytest.mark.parametrize("last", [False, True])
def test_first_layer(into, channels, kernel, stride, size, batch, last):
    """Few channels in, one or two vectors of them out: the image is read element by element, however it lies."""
    padding = kernel // 2 if isinstance(kernel, int) else tuple(k // 2 for k in kernel)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(into, channels, kernel, stride, padding), torch.nn.BatchNorm2d(channels), torch.nn.ReLU6(),
        torch.nn.Conv2d(channels, 16, 1),
    ).eval()  # fmt: skip
    x = laid(batch, into, *size, last=last)
    native(net, x, truth=copy.deepcopy(net).double())


@pytest.mark.parametrize(
    "kernel, stride, size, last",
    lying([(3, 1, (5, 20)), (3, 2, (9, 40)), (5, 1, (6, 33)), (5, 2, (7, 33)), (3, (1, 2), (4, 38)), (3, 1, (50,))]),
)
def test_depthwise_along_planes(kernel, stride, size, last):
    """Loops along the lines of planes sum the taps, forward and for the image's gradient; along the channels they put the
    kinds of a strided gradient's pixels where they belong. An infinity reaches what reads it alone."""
    convolve = F.conv2d if len(size) == 2 else F.conv1d

    def f(x, w, b):
        return F.relu(convolve(x, w, b, stride, kernel // 2, groups=6) + 1)

    x, w, b = laid(2, 6, *size, last=last), normal(6, 1, *[kernel] * len(size), seed=1), normal(6, seed=2)
    native(f, x, w, b)
    check_gradients(f, x, w, b)
    y = f(x, w, b).detach()
    y[0, 3, -1] = float("inf")

    def image(y, w):
        return torch.ops.aten.convolution_backward(
            y, x, w, None, *([n] * len(size) if isinstance(n, int) else list(n) for n in (stride, kernel // 2, 1)),
            False, [0] * len(size), 6, [True, False, False],
        )[0]  # fmt: skip

    got, expected = compile_fresh(image, dynamic=False)(y, w), image(y, w)
    assert torch.equal(got.isfinite(), expected.isfinite())
    kernels = hologram_torch.explain(image, y, w).graphs[0].kernels()
    assert last or not [k for k in kernels if "dot" in k["name"]]


@pytest.mark.parametrize(
    "into, channels, kernel, stride, size, batch, first, bare",
    [
        (16, 96, 3, 2, (24, 16), 1, 1, False),
        (24, 40, 3, 1, (9, 14), 2, 1, False),
        (8, 48, 5, 1, (40, 8), 3, 1, False),
        (3, 16, (3, 5), 1, (8, 28), 1, 1, False),
        (32, 192, 3, 2, (28, 28), 1, 1, False),
        (16, 96, 3, 1, (16, 16), 2, 1, True),
        (3, 32, 3, 1, (32, 32), 2, 3, False),
    ],
)
def test_expansion_and_depthwise(into, channels, kernel, stride, size, batch, first, bare):
    """One loop computes the depthwise convolution and the convolution before it, 1 x 1 or of few channels, with the bits of
    two kernels."""
    padding = kernel // 2 if isinstance(kernel, int) else tuple(k // 2 for k in kernel)

    class Block(torch.nn.Module):
        def __init__(self, gives_image):
            super().__init__()
            self.first = torch.nn.Conv2d(into, channels, first, stride=1 + first // 2, padding=first // 2, bias=not bare)
            self.norm = torch.nn.Identity() if bare else torch.nn.BatchNorm2d(channels)
            self.second = torch.nn.Conv2d(channels, channels, kernel, stride, padding, groups=channels)
            self.gives_image = gives_image

        def forward(self, x):
            image = F.relu6(self.norm(self.first(x * 2)))  # channels last inside
            y = F.relu(self.second(image)) + 1
            return (y, image) if self.gives_image else y

    torch.manual_seed(0)
    joined = Block(False).eval()
    if not bare:
        joined.norm.running_mean.normal_()
    apart = Block(True).eval()
    apart.load_state_dict(joined.state_dict())
    x = normal(batch, into, *size)
    got = native(joined, x, truth=copy.deepcopy(joined).double())
    if first > 1 or bare:
        kernels = hologram_torch.explain(joined, x).graphs[0].kernels()
        joins = bare or _core.host_cpu()["isa"] in ("avx512", "amx")  # its 32 registers hold what windows have in common
        assert sum("dot_general" in k["name"] for k in kernels) == (1 if joins else 2)
    with torch.no_grad():
        torch.testing.assert_close(got, compile_fresh(apart, dynamic=False)(x)[0], rtol=0, atol=0)
        compiled = compile_fresh(joined, dynamic=False)
        torch.testing.assert_close(compiled(x), joined(x))
        joined.first.weight.mul_(-2)  # what was made of the weights is stale
        torch.testing.assert_close(compiled(x), joined(x))


@pytest.mark.parametrize("kind", ["same", "strided", "phases", "patches"])
def test_a_bias_is_added_before_16_bit_results_are_rounded(kind):
    layer = {
        "same": torch.nn.Conv2d(8, 16, 3, padding=1),
        "strided": torch.nn.Conv2d(8, 16, 3, stride=2),
        "phases": torch.nn.ConvTranspose2d(8, 16, 3, stride=2),
        "patches": torch.nn.ConvTranspose2d(8, 16, 2, stride=2),
    }[kind].bfloat16().requires_grad_(False)
    x = normal(2, 8, 12, 12, dtype=torch.bfloat16)
    got = compile_fresh(layer)(x)
    exact = layer.double()(x.double()).bfloat16()
    assert (got != exact).double().mean() < 0.01  # what float32 sums next to a halfway case change


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("into", "out", "height", "width"), [(32, 48, 14, 14), (40, 33, 9, 12)])
def test_square_windows_with_kept_weights(into, out, height, width, channels_last):
    layer = torch.nn.Conv2d(into, out, 3, padding=1)
    model = torch.nn.Sequential(layer, torch.nn.BatchNorm2d(out), torch.nn.ReLU()).eval()
    compiled = compile_fresh(model, dynamic=False)
    x = laid(2, into, height, width, last=channels_last)

    def check():
        exact = copy.deepcopy(model).double()(x.double())
        assert (compiled(x).double() - exact).abs().max() <= 3e-6 * exact.abs().max()

    with torch.no_grad():
        check()
        layer.weight.mul_(-2).add_(0.1)  # what was made of the weights is stale
        check()
        x[0, 3, 4, 5] = float("inf")
        expected, got = model(x), compiled(x)
        assert torch.equal(got.isnan(), expected.isnan()) and torch.equal(got.isinf(), expected.isinf())
        assert got[1].isfinite().all() and got[0, :, 0].isfinite().all()


def test_saved_activations_lie_channels_last():
    """What only the backward graph reads stays as the convolution computed it, written once; results and gradients are eager's."""
    layers = [torch.nn.Conv2d(8, 16, 3, 2, 1), torch.nn.BatchNorm2d(16), torch.nn.ReLU6(), torch.nn.Conv2d(16, 8, 1)]
    model = torch.nn.Sequential(*layers)
    compiled = compile_fresh(model, dynamic=False)
    with hologram_torch.profile() as profile:
        compiled(normal(2, 8, 13, 12))
    assert [len(s["writes"]) for s in steps_of(profile) if s["name"].startswith("dot_general")] == [1, 1]
    model[1].reset_running_stats()
    results = []
    for f in (model, compiled):
        x = normal(2, 8, 13, 12).requires_grad_()
        y = f(x)
        if f is compiled:
            images = [t.stride() for t in y.grad_fn.saved_tensors if t.dim() == 4 and t.shape[1:] == (16, 7, 6)]
            assert images and all(stride == (672, 1, 96, 16) for stride in images)
        model.zero_grad()
        y.backward(normal(*y.shape, seed=3))
        results.append([y.detach(), x.grad, *(p.grad.clone() for p in model.parameters())])
        assert y.is_contiguous() and x.grad.is_contiguous()
    assert backend_stats()["fallback_ops"] == {} and backend_stats()["failed_graphs"] == 0
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [12, 72])  # a batch norm of few pixels is one kernel, one of more has its sums in blocks
def test_kinds_of_pixels_are_joined_apart_from_sums(size):
    """The image's gradient of a strided depthwise convolution, which batch norm's gradient sums and reads again."""
    layers = [torch.nn.BatchNorm2d(16), torch.nn.ReLU6(), torch.nn.Conv2d(16, 16, 3, 2, 1, groups=16, bias=False)]
    model = torch.nn.Sequential(*layers)
    x = laid(2, 16, size, size, last=True)

    def gradients(f):
        image = x.clone().requires_grad_()
        y = f(image)
        gradient = normal(*y.shape, seed=3).to(memory_format=torch.channels_last)
        return torch.autograd.grad(y, [image, *model.parameters()], gradient)

    expected, compiled = gradients(model), compile_fresh(model, dynamic=False)
    with hologram_torch.profile() as profile:
        got = gradients(compiled)
    (joined,) = [s["operations"] for s in steps_of(profile) if "concat" in str(s["operations"])]
    assert "reduce" not in str(joined) and "dot_general" in str(joined)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


POOLS = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1), "max_dilated": lambda x: F.max_pool2d(x, (2, 3), (3, 1), 1, (3, 2), ceil_mode=True),
    "max_large": lambda x: F.max_pool2d(x, 7, 5, 3), "max_3d": lambda x: F.max_pool3d(x, 2, 1), "avg": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
    "avg_divisor": lambda x: F.avg_pool2d(x, (3, 2), (2, 3), (1, 0), divisor_override=5), "avg_3d": lambda x: F.avg_pool3d(x, 3, 2, 1),
    "avg_lines": lambda x: F.avg_pool2d(x, (7, 8), (5, 3), (3, 2), True, False),
    "avg_3d_lines": lambda x: F.avg_pool3d(x, (4, 5, 6), (2, 3, 2), 2, True),
    "avg_none": lambda x: torch.cat([F.avg_pool2d(x[:0], 2), F.avg_pool2d(x, 2)]), "avg_apart": lambda x: F.avg_pool2d(x, 7),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (5, 1)), "adaptive_uneven": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    "adaptive_more": lambda x: F.adaptive_avg_pool2d(x, (20, 9)), "adaptive_3d_uneven": lambda x: F.adaptive_avg_pool3d(x, (2, 4, 14)),
}  # fmt: skip


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("last", [False, True])
def test_pooling(name, last):
    x = laid(2, 5, 15, 14, last=last and "3d" not in name)
    native(POOLS[name], x)
    if not last and name.partition("_")[0] in ("max", "avg"):
        check_gradients(POOLS[name], x)


RESIZES = {
    "twice": {"scale_factor": 2, "mode": "bilinear"},
    "factors": {"scale_factor": (1.7, 0.6), "mode": "bilinear"},
    "size": {"size": (11, 31), "mode": "bilinear"},
    "corners": {"size": (14, 1), "mode": "bilinear", "align_corners": True},
    "recomputed": {"scale_factor": 1.3, "mode": "bilinear", "recompute_scale_factor": True},
    "antialias": {"size": (5, 6), "mode": "bilinear", "antialias": True},
    "nearest": {"scale_factor": 2},
    "nearest size": {"size": (3, 40)},
    "nearest exact": {"scale_factor": (1 / 3, 2), "mode": "nearest-exact"},
    "nearest uneven": {"scale_factor": (2.3, 0.6)},
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", RESIZES)
def test_interpolation(name, last):
    for f in (functools.partial(F.interpolate, **RESIZES[name] | more) for more in ({}, {"mode": "bicubic"})):
        check_gradients(f, laid(2, 18, 9, 20, last=last), left=name == "antialias", bound=None)


@pytest.mark.parametrize("shape", [(2, 3, 8), (2, 3, 4, 6, 8)])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_by_whole_factors_gathers_nothing(shape, mode):
    """Lines and volumes, and numbers other than floats."""
    x = (normal(*shape) * 100).to(torch.uint8)
    for factor in (2, 3, 0.5):
        f = functools.partial(F.interpolate, scale_factor=factor, mode=mode)
        assert torch.equal(compile_fresh(f, dynamic=False)(x), f(x))
        assert "1 kernels" in (text := str(hologram_torch.explain(f, x))) and "take" not in text
