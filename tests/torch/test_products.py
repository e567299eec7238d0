# tests/torch/test_products.py: products through torch.compile that other tests do not reach
import pytest
import torch

import hologram_torch


def compiled(function, dynamic=False):
    torch._dynamo.reset()
    return torch.compile(function, backend=hologram_torch.hologram, dynamic=dynamic)


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
