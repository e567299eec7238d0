# tests/torch/test_custom_op.py: kernels of one's own as operators of PyTorch
import hologram_torch
import numpy as np
import pytest
import torch
from checks import refuses
from harness import backend_stats, compile_fresh
from hologram import jit, special
from hologram_torch import custom_op


def swish_gradient(g, out, x, slope: float):
    s = special.sigmoid(slope * x)
    return g * (s + slope * out * (1 - s))


def swish_values(x, slope: float = 1.0):
    return x * special.sigmoid(slope * x)


swish = custom_op("hologram_test::swish", gradient=swish_gradient, elementwise=True)(swish_values)


def swish_gradients_gradient(h, _, g, out, x, slope):
    s = special.sigmoid(slope * x)
    return h * (s + slope * out * (1 - s)), h * g * slope * (1 - s), h * g * slope * s * (1 - s) * (1 - slope * out)


swish_backward = custom_op("hologram_test::swish_backward", swish_gradient, gradient=swish_gradients_gradient, elementwise=True)
swish_twice = custom_op("hologram_test::swish_twice", swish_values, gradient=swish_backward, elementwise=True)


def scaled_gradient(g, out, x, weight):
    size = np.sqrt((x * x).mean(axis=-1, keepdims=True))
    y = g * weight
    return (y - x / size * (y * x / size).mean(axis=-1, keepdims=True)) / size, (g * x / size).sum(axis=0)


@jit
def rms(x, weight):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True)) * weight


norm = custom_op("hologram_test::norm", rms, gradient=scaled_gradient)
parts = custom_op(
    "hologram_test::parts", lambda x, n: (np.sin(x) + n, x.sum(axis=0)), results=2,
    gradient=lambda g, h, a, b, x, n: (g * np.cos(x) + h, None),
)  # fmt: skip
rows = custom_op("hologram_test::rows", """atlas block 1
symbols 2
buffer b0 f32 read [s0*s1]
buffer b1 f32 write [s0]
loop parallel 1 lane i1
axis i0 parallel [s0]
axis i1 row [s1]
stage row
  %0 = load.f32 b0[s1*i0 + i1]
  reduce a0 = reduce_sum.f32 %0
stage point
  %0 = accumulator.f32 a0
  store.f32 b1[i0], %0
""", fake=lambda x: x.new_empty(x.shape[:1]), symbols=lambda x: x.shape)  # fmt: skip

WHOLE = torch.tensor([[1], [2], [3]], dtype=torch.int16)
CASES = {
    "swish": (swish, lambda x, slope=1.0: x * torch.sigmoid(slope * x), ((3, 4), 2.0)),
    "norm": (norm, lambda x, w: x / x.square().mean(-1, keepdim=True).sqrt() * w, ((3, 4), (4,))),
    "parts": (parts, lambda x, n: (x.sin() + n, x.sum(0)), ((3, 4), WHOLE)),
    "rows": (rows, lambda x: x.sum(-1), ((3, 4),)),
}


def operands(shapes, dtype=torch.float32, grad=False):
    torch.manual_seed(0)
    return [torch.randn(v, dtype=dtype, requires_grad=grad) if isinstance(v, tuple) else v for v in shapes]


@pytest.mark.parametrize("name", CASES)
def test_is_an_operator(name):
    """Its values, shapes and gradients are right, in eager and under torch.func."""
    call, reference, shapes = CASES[name]
    given = operands(shapes)
    torch.testing.assert_close(call(*given), reference(*given))
    if name != "rows":
        given = operands(shapes, torch.float64, grad=True)
        torch.autograd.gradcheck(call.operator, given)
        torch.library.opcheck(call.operator, operands(shapes, grad=True))
    x, rest = torch.randn(5, 3, 4), operands(shapes)[1:]
    torch.testing.assert_close(*(torch.func.vmap(lambda x: f(x, *rest))(x) for f in (call, reference)))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_in_graphs(name, dynamic):
    """NumPy functions are part of the graph where sizes are known; other compilers call the operator."""
    call, reference, shapes = CASES[name]

    def around(f):
        def function(x, *rest):
            y = f(x * 2, *rest)
            return [t + 1 for t in (y if isinstance(y, tuple) else (y,))]

        return function

    given = operands(shapes, grad=name != "rows")
    expected, compiled = around(reference)(*given), compile_fresh(around(call), fullgraph=True, dynamic=dynamic)
    found = compiled(*given)
    torch.testing.assert_close(found, expected)
    if name != "rows":
        wanted = [v for v in given if isinstance(v, torch.Tensor) and v.is_floating_point()]
        gradients = [torch.autograd.grad(sum(t.square().sum() for t in ts), wanted) for ts in (found, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    assert backend_stats()["failed_graphs"] == 0
    if not dynamic:
        assert (backend_stats()["fallback_ops"] == {}) == (name != "rows")
        other = torch.compile(around(call), backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(other(*given), expected)


def test_gradients_of_gradients():
    """Where the gradient is an operator with a gradient; in a graph its operations are the graph's. Others tell what lacks."""
    x, g = operands(((3, 4), (3, 4)), torch.float64, grad=True)
    torch.autograd.gradgradcheck(lambda x: swish_twice(x, 2.0), (x,))
    asked = [call(g, swish_twice(x, 2.0), x, 2.0) for call in (compile_fresh(swish_backward, fullgraph=True), swish_backward)]
    torch.testing.assert_close(*(torch.autograd.grad(y.sum(), (x, g)) for y in asked))
    assert backend_stats()["fallback_ops"] == {}
    for operator, name in ((swish, "swish"), (swish_backward, "swish_backward")):
        given = (x, 2.0) if operator is swish else (g, x.detach(), x, 2.0)
        (once,) = torch.autograd.grad(operator(*given).sum(), x, create_graph=True)
        refuses(RuntimeError, f"the gradient of hologram_test::{name} has no gradient of its own", once.sum().backward)


def test_refuses():
    refuses(ValueError, r"name must be 'namespace::name', got 'plain'", lambda: custom_op("plain", lambda x: x))
    refuses(ValueError, "fake= has to tell", lambda: custom_op("hologram_test::none", "atlas block 1\n"))
    with pytest.raises(ValueError, match=r"takes 4 arguments and gives 2 results, got hologram_test::swish with 2 and 1"):
        custom_op("hologram_test::other", lambda x, y: x * y, gradient=swish)
    assert "custom_op" in dir(hologram_torch)
