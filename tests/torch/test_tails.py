# tests/torch/test_tails.py: norms and softmax in the kernel of the product that makes their rows
import hologram_torch
import pytest
import torch
from harness import backend_stats, compile_fresh

ROWS, WIDTH = 1030, 130


class Follows(torch.nn.Module):
    """A layer of `depth` inputs and what follows its rows."""

    def __init__(self, what, depth=50):
        super().__init__()
        self.layer = torch.nn.Linear(depth, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.rms = torch.nn.RMSNorm(WIDTH)
        self.next = torch.nn.Linear(WIDTH, 8)
        self.what = what

    def forward(self, x, residual):
        return getattr(self, self.what)(self.layer(x), residual)

    def after(self, y, residual):
        return self.norm(y + residual)

    def before(self, y, residual):
        sums = y + residual
        return sums, self.next(self.rms(sums)), self.norm(sums)

    def softmax(self, y, residual):
        return torch.softmax(y, -1), residual + 1

    def largest(self, y, residual):
        return y, y.argmax(-1), torch.log_softmax(y * residual, -1)

    def turned(self, y, residual):
        return self.norm(y + residual).t().contiguous(), self.norm(y.view(2, -1, WIDTH)).transpose(0, 1)

    def updates(self, y, residual):
        residual += y
        return self.norm(residual)


def make(what, dtype):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        inputs = torch.randn(ROWS, 50).to(dtype), torch.randn(ROWS, WIDTH).to(dtype)
        return Follows(what).to(dtype).eval(), inputs


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("what", ("after", "before", "softmax", "largest", "turned", "updates"))
def test_values(what, dtype):
    module, inputs = make(what, dtype)
    own, others = [t.clone() for t in inputs], [t.double() for t in inputs]
    with torch.no_grad():
        actual = compile_fresh(module, dynamic=False)(*own)
        expected = module.double()(*others)
    actual, expected = (x if isinstance(x, tuple) else (x,) for x in (actual, expected))
    bound = 5e-2 if dtype == torch.bfloat16 else 1e-4
    for a, e in zip((*actual, own[1]), (*expected, others[1]), strict=True):
        if a.dtype == torch.int64:
            assert (a == e).double().mean() > 0.98  # rounding makes ties
        else:
            assert a.shape == e.shape and a.dtype == dtype
            torch.testing.assert_close(a.double(), e, rtol=bound, atol=bound)
    assert backend_stats()["fallback_ops"] == {}


# On AMX tiles products have no tail, but for those that are chains everywhere.
CHAINS = {"reproducible": True}


def test_one_kernel():
    module, inputs = make("after", torch.float32)
    assert "1 kernels" in str(hologram_torch.explain(module, *inputs, **CHAINS))


def test_bits_do_not_depend_on_the_tail():
    module, inputs = make("before", torch.float32)
    few = [t[:100] for t in inputs]  # too few rows for a tail
    with torch.no_grad():
        whole = compile_fresh(module, dynamic=False, options=CHAINS)(*inputs)
        part = compile_fresh(module, dynamic=False, options=CHAINS)(*few)
    for a, b in zip(whole, part, strict=True):
        assert torch.equal(a[:100], b)
