# tests/torch/test_ordering.py: searches and padding beside PyTorch
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


@pytest.mark.parametrize("n", (5, 17, 64, 1000, 4097))
@pytest.mark.parametrize("right", (False, True))
def test_searches(n, right):
    line = (torch.randn(n) * 4).round().sort()[0]
    x = rows(40, 30)
    native(lambda x, line: torch.bucketize(x, line, right=right), (x, line))
    lines = (torch.randn(6, n) * 4).round().sort(-1)[0]
    native(lambda x, lines: torch.searchsorted(lines, x, right=right, out_int32=True), (rows(6, 33), lines))


@pytest.mark.parametrize("mode", ("reflect", "replicate"))
@pytest.mark.parametrize(
    "shape, pad",
    (((2, 3, 7), (2, 3)), ((3, 7), (6, 0)), ((2, 3, 9, 70), (1, 2, 3, 0)), ((2, 3, 5, 6, 7), (1, 1, 2, 0, 0, 3)),
     ((2, 3, 9, 70), (-1, 2, 0, -4))),
)  # fmt: skip
def test_padding_from_the_edges(mode, shape, pad):
    native(lambda x: torch.nn.functional.pad(x, pad, mode=mode), (torch.randn(shape),))
