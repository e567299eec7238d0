# examples/training/custom_operator.py: an operator out of NumPy functions, with its gradient, trained beside eager
"""Needs `pip install hologram-compute[torch,examples]`.

    python custom_operator.py [--steps 200]
"""

import beside
import hologram_torch
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def gradient(g, out, x, scale):
    """What follows for x and scale from the gradient `g` of the result."""
    size = np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    y = g * scale
    return (y - x / size * (y * x / size).mean(axis=-1, keepdims=True)) / size, (g * x / size).sum(axis=0)


@hologram_torch.custom_op("example::rms_norm", gradient=gradient)
def rms_norm(x, scale):
    """Rows of x divided by the root of their mean square, times a scale for each column (Zhang and Sennrich 2019)."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * scale


class Normed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return rms_norm(x, self.scale)


def circle(count):
    """Points, and which of them lie inside of a ball."""
    x = torch.randn(count, 8)
    return x, (x.square().sum(-1, keepdim=True) > 8).float()


def train(steps, **how):
    """Yields the loss of each step; returns the model. In eager the operator runs too: by itself, as one call."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), Normed(64), nn.GELU(), nn.Linear(64, 64), Normed(64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    @torch.compile(backend="hologram", fullgraph=True, dynamic=False, **how)  # the operator's own operations join their neighbours'
    def loss_of(x, y):
        return F.binary_cross_entropy_with_logits(model(x), y)

    update = torch.compile(optimizer.step, backend="hologram", **how)
    for _ in range(steps):
        x, y = circle(256)
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        update()
        yield loss
    return model


if __name__ == "__main__":
    for ours, _ in beside.run(train, beside.options(__doc__, "steps", 200, 12)):
        x, y = circle(1000)
        print(f"{100 * ((ours.result(x) > 0) == (y > 0)).float().mean():.1f} % of new points are on the right side")
        exported = torch.export.export(ours.result, (x,))  # other compilers see torch.ops.example.rms_norm
        print([str(node.target) for node in exported.graph.nodes if "rms_norm" in str(node.target)])
