# tests/torch/test_draws.py: random numbers of compiled graphs are eager's for the same seed, and so is the generator behind them
import pytest
import torch
from harness import BACKEND, backend_stats, compile_fresh
from hologram_torch.capture import draws
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.skipif(BACKEND != "hologram", reason="tests of this backend alone")

X = torch.linspace(-2, 3, 1400).reshape(7, 4, 5, 10)
DRAWS = {  # drawn natively
    "dropout": lambda: functional.dropout(X, 0.3),
    "dropout of channels last": lambda: functional.dropout(X.contiguous(memory_format=torch.channels_last) * 2, 0.1),
    "dropout of 16 bits": lambda: functional.dropout(X.bfloat16(), 0.3),
    "dropout of a part": lambda: functional.dropout(X[:, 1:3, :, ::2], 0.5),
    "dropout of all": lambda: functional.dropout(X, 1.0),
    "dropout of channels": lambda: functional.dropout2d(X, 0.4),
    "bernoulli": lambda: torch.bernoulli(X, 0.7),
    "rand": lambda: torch.rand(700) * 2,
    "rand_like": lambda: torch.rand_like(X.transpose(1, 3)),
    "several": lambda: (torch.rand(3), functional.dropout(X, 0.2), torch.rand(5), torch.bernoulli(X.double(), 0.5)),
}
LEFT = {  # by PyTorch
    "randn": lambda: torch.randn(100),
    "between": lambda: (torch.rand(3), torch.randn_like(X), functional.dropout(X, 0.2), torch.randperm(9), torch.randint(0, 9, (4,))),
    "another generator": lambda: torch.rand(5, generator=torch.Generator().manual_seed(3)),
    "probabilities": lambda: torch.bernoulli(X.sigmoid()),
    "double": lambda: torch.rand(9, dtype=torch.float64),
    "bounds": lambda: torch.empty(700).uniform_(-1, 1),
}


@pytest.mark.parametrize("name", [*DRAWS, *LEFT])
def test_numbers_are_eagers(name):
    function = DRAWS.get(name) or LEFT[name]
    compiled = compile_fresh(function, fullgraph=name != "another generator")
    for before in (0, 623):  # numbers of the state that were used
        found = []
        for call in (compiled, function):
            torch.manual_seed(5)
            torch.empty(before, dtype=torch.int32).random_()
            found.append((call(), torch.get_rng_state()))
        torch.testing.assert_close(*found, rtol=0, atol=0)
    assert name in LEFT or not draws.exact() or backend_stats()["fallback_ops"] == {}


@pytest.mark.parametrize("again", [False, True])
def test_training_with_dropout_is_eagers(again):
    """Five steps, masks computed once more in the backward pass or kept."""
    curves = []
    for compiling in (True, False):
        torch.manual_seed(0)
        layer = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.2), nn.GELU(), nn.Linear(32, 4), nn.Dropout(0.1))
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def loss(x):
            y = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False) if again else layer(x)
            return y.square().mean() + y[..., 0].mean()

        call, losses = compile_fresh(loss) if compiling else loss, []
        for _ in range(5):
            optimizer.zero_grad()
            value = call(torch.rand(3, 6, 16))
            value.backward()
            optimizer.step()
            losses.append(value.detach())
        curves.append((torch.stack(losses), torch.rand(2)))
        if compiling:
            assert backend_stats()["failed_graphs"] == 0
            assert not draws.exact() or backend_stats()["fallback_ops"] == {}
    torch.testing.assert_close(*curves, rtol=1e-5, atol=1e-6)
