# tests/torch/test_training.py: fifty steps of training, compiled with the optimiser's step, beside eager
import copy
import re

import pytest
import torch
from harness import BACKEND, backend_stats, compile_fresh
from torch import nn

pytestmark = pytest.mark.skipif(BACKEND != "hologram", reason="tests of this backend alone")


class Tiny(nn.Module):
    """A causal transformer of two layers over bytes."""

    def __init__(self, width=32, vocabulary=17):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.layers(self.embed(x), mask=mask, is_causal=True))


def mlp():
    x = torch.randn(32, 10)
    return nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 3)), x, x[:, :3].sin()


def transformer():
    tokens = torch.randint(0, 17, (8, 13))
    return Tiny(), tokens[:, :-1], tokens[:, 1:]


def curve(model, x, y, compiling, steps=50):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    call = compile_fresh(model, dynamic=False) if compiling else model
    step = torch.compile(optimizer.step, backend=BACKEND) if compiling else optimizer.step
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        out = call(x)
        loss = nn.functional.mse_loss(out, y) if y.is_floating_point() else nn.functional.cross_entropy(out.flatten(0, 1), y.flatten())
        loss.backward()
        step()
        losses.append(loss.detach())
    return torch.stack(losses)


@pytest.mark.parametrize("make", [mlp, transformer])
def test_the_loss_falls_as_in_eager(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x, y = make()
    expected = curve(copy.deepcopy(model), x, y, False)
    found = curve(model, x, y, True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert expected[-1] < 0.9 * expected[0]
    stats = backend_stats()
    assert stats["failed_graphs"] == 0 and stats["fallback_ops"] == {}


def test_gradients_lie_row_by_row_where_a_weight_reads_them_transposed():
    """A weight's gradient reads both operands with the tokens as its depth; what wrote them keeps its own rows."""
    from hologram_torch import counters

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = torch.nn.LayerNorm(48), torch.nn.Linear(48, 96), torch.nn.Linear(96, 48)

        def forward(self, x):
            return x + self.down(torch.relu(self.up(self.norm(x))))

    model = torch.nn.Sequential(Block(), Block())
    x = torch.randn(4, 32, 48)
    with counters.capture() as records:
        compiled = compile_fresh(model)
        compiled(x).square().mean().backward()
    checked = 0
    for name, executable, _ in records:
        for slot in executable.plan().splitlines():
            found = re.match(r"slot \d+ arena \w+ \[(\d+), (\d+), (\d+)\] strides \[(\d+), (\d+), (\d+)\]", slot)
            if found:
                _, b, c, *strides = (int(n) for n in found.groups())
                assert strides == [b * c, c, 1], (name, slot)
                checked += 1
    assert checked
