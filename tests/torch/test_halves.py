# tests/torch/test_halves.py: operators on bfloat16 and float16 round where eager does
import pytest
import torch
from harness import BACKEND, compile_fresh

HALVES = (torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_division_to_whole_numbers(dtype, mode):
    x, y = (torch.randn(20000) * 20).to(dtype), torch.randn(20000).to(dtype)
    compiled = torch.compile(lambda x, y: torch.div(x, y, rounding_mode=mode), backend=BACKEND)
    for by in (y, 0.37):
        torch.testing.assert_close(compiled(x, by), torch.div(x, by, rounding_mode=mode), rtol=0, atol=0)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_embedding_bag_is_trained(dtype, mode, dynamic):
    """Its kernel leaves empty, in some dtypes and modes, what its backward operator does not read."""
    weight = torch.randn(10, 4).to(dtype).requires_grad_()

    def function(indices, offsets, weight):
        return torch.nn.functional.embedding_bag(indices, weight, offsets, mode=mode)

    compiled = compile_fresh(function, dynamic=dynamic)
    for count in (5, 7):
        indices, offsets = torch.arange(count), torch.tensor([0, 2])
        results = [f(indices, offsets, weight) for f in (compiled, function)]
        torch.testing.assert_close(*results)
        torch.testing.assert_close(*(torch.autograd.grad(r.sum(), weight)[0] for r in results))


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_at_places_and_signs(dtype):
    def function(x, i, at, s):
        added = x.index_add(0, i, s), x.mT.index_add(1, i, s.mT), x[:, 0].index_add(0, i, s[:, 0]), x.index_add(0, i, s, alpha=3)
        mean, signs = x.scatter_reduce(0, at, s, "mean", include_self=False), (-x, x.abs(), x.copysign(s[:40]))
        return *signs, *added, x.repeat(20, 1).index_add(0, i, s), x.scatter_add(0, at, s), x.scatter(0, at, s, reduce="multiply"), mean

    x, i, s = torch.randn(40, 5).to(dtype), torch.randint(0, 3, (600,)), torch.randn(600, 5).to(dtype)
    for at in (i[:, None].expand(s.shape), i[:, None].repeat(1, 5)):  # rows whole, or number by number
        torch.testing.assert_close(compile_fresh(function)(x, i, at, s), function(x, i, at, s), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", HALVES)
def test_norms_by_float32_weights_have_float32_moments(dtype):
    x, w, b = torch.randn(2, 8, 8).to(dtype), torch.rand(8), torch.rand(8)
    for function in (
        lambda x: torch.native_layer_norm(x, (8,), w, b, 1e-5), lambda x: torch.native_group_norm(x, w, None, 2, 8, 8, 4, 1e-5),
        lambda x: torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5),
        lambda x: torch.native_batch_norm(x, None, None, b.clone(), w.clone(), True, 0.1, 1e-5),
        lambda x: torch.native_batch_norm(x, w, b, b.clone(), w.clone(), False, 0.1, 1e-5),
    ):  # fmt: skip
        for given in (x, x.clone().requires_grad_()):
            torch.testing.assert_close(compile_fresh(function)(given), function(given), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("types", [(torch.float32, torch.float64), (torch.bfloat16, torch.float32)])
@pytest.mark.parametrize("loss", [torch.nn.functional.soft_margin_loss, torch.nn.functional.huber_loss])
def test_losses_of_two_types_have_the_operands(loss, types):
    x, target = torch.randn(5, 7).to(types[0]).requires_grad_(), torch.randn(5, 7).sign().to(types[1])
    for reduction in ("none", "mean", "sum"):
        results = [f(x, target, reduction=reduction) for f in (compile_fresh(loss), loss)]
        torch.testing.assert_close(*results, rtol=2e-2, atol=2e-2)
        if loss is torch.nn.functional.soft_margin_loss:  # eager refuses gradients of the other one
            torch.testing.assert_close(*(torch.autograd.grad(r.sum() * 3, x)[0] for r in results), rtol=2e-2, atol=2e-2)
