# tests/torch/test_products.py: products through torch.compile that other tests do not reach
import pytest
import torch
from harness import BACKEND

pytestmark = pytest.mark.skipif(BACKEND != "hologram", reason="tests of this backend's kernels")
hologram_torch = pytest.importorskip("hologram_torch")


def compiled(function, dynamic=False):
    torch._dynamo.reset()
    return torch.compile(function, backend=hologram_torch.hologram, dynamic=dynamic)


@pytest.mark.parametrize("m, n, k", [(1, 40, 33), (17, 64, 64), (100, 70, 260)])
def test_bytes_summed_in_words(m, n, k, monkeypatch):
    monkeypatch.setenv("HOLOGRAM_STRICT", "1")
    x, w = (torch.randint(-128, 128, s, dtype=torch.int8) for s in ((m, k), (n, k)))
    exact = x.long() @ w.long().t()
    assert torch.equal(compiled(lambda x, w: torch._int_mm(x, w.t()))(x, w).long(), exact)
    assert torch.equal(compiled(lambda x, w: torch._int_mm(x, w))(x, w.t().contiguous()).long(), exact)
    layer = torch.nn.Module()
    layer.register_buffer("w", w)
    layer.forward = lambda x: torch._int_mm(x, layer.w.t()) + 1
    assert torch.equal(compiled(layer)(x).long(), exact + 1)


@pytest.mark.parametrize("m, n, k", [(1, 40, 33), (17, 64, 64), (100, 70, 400)])
def test_bfloat16_sums_in_float32_and_rounds_once(m, n, k, monkeypatch):
    monkeypatch.setenv("HOLOGRAM_STRICT", "1")
    layer = torch.nn.Linear(k, n).bfloat16().requires_grad_(False)
    x = torch.randn(m, k).bfloat16()
    exact = (x.double() @ layer.weight.double().t()).bfloat16() + layer.bias
    for got in (compiled(layer)(x), compiled(lambda x, w, b: x @ w.t() + b)(x, layer.weight, layer.bias)):
        torch.testing.assert_close(got, exact, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_layer_rounds_product_and_bias_together(dtype, monkeypatch):
    """addmm is one operator: its sum has no rounding before the bias, as in eager."""
    monkeypatch.setenv("HOLOGRAM_STRICT", "1")
    layer = torch.nn.Linear(64, 48).to(dtype).requires_grad_(False)
    x = torch.randn(32, 64).to(dtype)
    exact = (x.double() @ layer.weight.double().t() + layer.bias.double()).to(dtype)
    apart = (compiled(layer)(x) != exact).double().mean()
    assert apart < 0.01  # what float32 sums next to a halfway case change
    twice = ((x.double() @ layer.weight.double().t()).to(dtype) + layer.bias != exact).double().mean()
    assert twice > 0.05


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("rows, columns", [(5, 7), (300, 400), (64, 1)])
def test_a_matrix_times_a_vector(rows, columns, dynamic, monkeypatch):
    monkeypatch.setenv("HOLOGRAM_STRICT", "1")
    w, v, b = torch.randn(rows, columns), torch.randn(columns), torch.randn(rows)
    for function in (
        lambda w, v, b: torch.mv(w, v),
        lambda w, v, b: torch.addmv(b, w, v).relu(),
        lambda w, v, b: w @ v[:, None] + b[:, None],
        lambda w, v, b: torch.bmm(w[None].expand(3, -1, -1), v[None, :, None].expand(3, -1, -1)) * b[:, None],
    ):
        exact = function(w.double(), v.double(), b.double())
        torch.testing.assert_close(compiled(function, dynamic)(w, v, b), exact.float(), rtol=1e-4, atol=1e-4)
