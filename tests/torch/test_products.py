# tests/torch/test_products.py: products through torch.compile that other tests do not reach
import functools

import pytest
import torch
import torch.nn.functional as F
from harness import compile_fresh

hologram_torch = pytest.importorskip("hologram_torch")
compiled = functools.partial(compile_fresh, dynamic=False)
pytestmark = pytest.mark.usefixtures("strict")


BYTES = ((torch.int8, torch.int8), (torch.uint8, torch.int8), (torch.int8, torch.uint8), (torch.uint8, torch.uint8))


@pytest.mark.parametrize("left, right", BYTES)
@pytest.mark.parametrize("m, n, k", [(1, 40, 33), (17, 64, 64), (100, 70, 260), (40, 1, 37)])
def test_bytes_of_either_sign(m, n, k, left, right):
    x, w = (torch.randint(-128, 128, s, dtype=torch.int8).view(t) for s, t in (((m, k), left), ((n, k), right)))
    exact = x.long() @ w.long().t()
    assert torch.equal(compiled(lambda x, w: x.int() @ w.int().t())(x, w).long(), exact)
    layer = torch.nn.Module()
    layer.register_buffer("w", w)
    layer.forward = lambda x: x.int() @ layer.w.t().int() + 1
    assert torch.equal(compiled(layer)(x).long(), exact + 1)
    if right == torch.int8:
        assert torch.equal(compiled(lambda x, w: torch._int_mm(x, w.t()))(x, w).long(), exact)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_layer_rounds_product_and_bias_together(dtype):
    """addmm is one operator: its sum has no rounding before the bias, as in eager."""
    layer = torch.nn.Linear(64, 48).to(dtype).requires_grad_(False)
    x = torch.randn(32, 64).to(dtype)
    exact = (x.double() @ layer.weight.double().t() + layer.bias.double()).to(dtype)
    apart = (compiled(layer)(x) != exact).double().mean()
    assert apart < 0.01  # what float32 sums next to a halfway case change
    twice = ((x.double() @ layer.weight.double().t()).to(dtype) + layer.bias != exact).double().mean()
    assert twice > 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(70,), (3, 40)])
def test_rows_taken_by_their_numbers(shape, dynamic, dtype):
    x, w = torch.randn(50, 96, dtype=dtype), torch.randn(64, 96, dtype=dtype)
    indices = torch.randint(-50, 50, shape)

    def function(x, w, indices):
        return F.linear(x[indices], w).relu()

    got = compiled(function, dynamic=dynamic)(x, w, indices)
    exact = F.linear(x[indices].double(), w.double()).relu()
    torch.testing.assert_close(got, exact.to(dtype), rtol=2e-5 if dtype == torch.float32 else 2**-7, atol=1e-4)
    if not dynamic:
        (graph,) = hologram_torch.explain(function, x, w, indices).graphs
        assert not any("take" in kernel["name"] for kernel in graph.kernels())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("ends", [[0, 2, 2, 3], [3, 3], [0, 7, 40, 40, 71], [16, 32, 33]])
def test_groups_of_rows(ends, dynamic, dtype):
    """As mixtures of experts multiply: few rows one by one, others in blocks; groups may be empty."""
    x, w = torch.randn(ends[-1], 64, dtype=dtype), torch.randn(len(ends), 48, 64, dtype=dtype)

    def function(x, w, ends):
        return torch._grouped_mm(x, w.transpose(1, 2), offs=ends)

    hologram_torch.reset_stats()
    got = compiled(function, dynamic=dynamic)(x, w, torch.tensor(ends, dtype=torch.int32))
    exact = torch.cat([x[a:b].double() @ w[i].double().t() for i, (a, b) in enumerate(zip([0, *ends], ends))])
    torch.testing.assert_close(got, exact.to(dtype), rtol=2e-5 if dtype == torch.float32 else 2**-7, atol=1e-4)
    assert hologram_torch.stats()["fallback_ops"] == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("m", [1, 5, 33])
def test_pytorchs_packed_weights(m, dtype):
    n, k, group = 128, 256, 32
    x = torch.randn(m, k, dtype=dtype)
    bound = {"rtol": 2**-6, "atol": 2**-6} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
    w, s = torch.randint(-128, 128, (n, k), dtype=torch.int8), torch.rand(n, dtype=dtype) / 100
    exact = (x.double() @ w.double().t() * s.double()).to(dtype)
    torch.testing.assert_close(compiled(torch._weight_int8pack_mm)(x, w, s), exact, **bound)
    q = torch.randint(0, 16, (n, k), dtype=torch.int32)
    sz = torch.rand(k // group, n, 2, dtype=dtype) / 10
    wide = sz.double().repeat_interleave(group, 0)
    exact = (x.double() @ ((q.t().double() - 8) * wide[..., 0] + wide[..., 1])).to(dtype)
    packed = torch._convert_weight_to_int4pack_for_cpu(q, 1)
    layer = torch.nn.Module()
    layer.register_buffer("w", packed)
    layer.forward = lambda x: torch._weight_int4pack_mm_for_cpu(x, layer.w, group, sz)
    torch.testing.assert_close(compiled(layer)(x), exact, **bound)
