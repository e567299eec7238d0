# tests/torch/test_ordering.py: long sorts, selections, searches and scans beside PyTorch
import pytest
import torch
from harness import compile_fresh

import hologram_torch


def native(function, *inputs, dynamic=False, exact=True):
    """Compiles, compares with eager and expects no call into PyTorch."""
    compiled = compile_fresh(function, dynamic=dynamic)
    before = dict(hologram_torch.stats()["fallback_ops"])
    for arguments in inputs:
        ours, theirs = compiled(*arguments), function(*arguments)
        for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (ours, theirs)), strict=True):
            torch.testing.assert_close(a, b, equal_nan=True, **({"rtol": 0, "atol": 0} if exact else {}))
    assert hologram_torch.stats()["fallback_ops"] == before


def rows(*shape, dtype=torch.float32):
    """Numbers with equals among them, and for floats NaN, infinities and both zeros."""
    if not dtype.is_floating_point:
        return torch.randint(0, 50, shape).to(dtype)
    x = (torch.randn(*shape) * 8).round().to(dtype) / 4
    flat = x.view(-1)
    for i, special in enumerate((float("nan"), float("inf"), float("-inf"), -0.0, 0.0, float("nan"))):
        flat[(i * 37) % flat.numel()] = special
    return x


def test_sort_of_sizes_known_at_run_time():
    inputs = [(rows(2, n),) for n in (70, 900, 33)]
    native(lambda x: (*x.sort(stable=True, dim=-1), torch.argsort(x * 2, stable=True)), *inputs, dynamic=True)


@pytest.mark.parametrize("n, k", ((65, 3), (1000, 10), (1000, 999), (20000, 50), (600, 600)))
@pytest.mark.parametrize("largest", (False, True))
def test_topk(n, k, largest):
    x = torch.stack([torch.randperm(n) for _ in range(4)]).float() - n / 2  # all distinct
    native(lambda x: tuple(x.topk(k, -1, largest=largest)), (x,), (x.long(),))


def test_median_kthvalue_and_quantile():
    x = torch.stack([torch.randperm(1001) for _ in range(3)]).float()
    native(lambda x: (*x.median(-1), *x.kthvalue(100, -1), x.median()), (x,), (x.long() - 500,), (x.int() * 2**21 - 2**31,))
    x[1, 5] = float("nan")
    native(lambda x: (*x.median(-1), x.median(), x.nanmedian(-1).values), (x,), (x.double(),), (x.half(),))
    native(lambda x: x.quantile(torch.tensor([0.1, 0.5]), -1), (torch.randn(3, 800),), exact=False)


@pytest.mark.parametrize("n", (5, 17, 64, 1000, 4097))
@pytest.mark.parametrize("right", (False, True))
def test_searches(n, right):
    line = (torch.randn(n) * 4).round().sort()[0]
    x = rows(40, 30)
    native(lambda x, line: torch.bucketize(x, line, right=right), (x, line))
    lines = (torch.randn(6, n) * 4).round().sort(-1)[0]
    native(lambda x, lines: torch.searchsorted(lines, x, right=right, out_int32=True), (rows(6, 33), lines))


def test_logcumsumexp_of_long_rows():
    native(lambda x: x.logcumsumexp(1), (rows(3, 1000),), (torch.linspace(-900, 900, 3000).view(3, 1000),), exact=False)
