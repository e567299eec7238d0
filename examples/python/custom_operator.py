# examples/python/custom_operator.py: an operator of PyTorch out of NumPy functions, trained through torch.compile
import hologram_torch
import numpy as np
import torch


def gradient(g, out, x, scale):
    size = np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    y = g * scale
    return (y - x / size * (y * x / size).mean(axis=-1, keepdims=True)) / size, (g * x / size).sum(axis=0)


@hologram_torch.custom_op("example::rms_norm", gradient=gradient)
def rms_norm(x, scale):
    """Rows of x divided by the root of their mean square, times a scale for each column."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * scale


class Normed(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return rms_norm(x, self.scale)


torch.manual_seed(0)
x = torch.randn(256, 8)
target = (x.square().sum(-1, keepdim=True) > 8).float()
model = torch.nn.Sequential(torch.nn.Linear(8, 64), Normed(64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)


def loss_of(x):
    return torch.nn.functional.binary_cross_entropy_with_logits(model(x), target)


first = loss_of(x).item()
compiled = torch.compile(loss_of, backend="hologram", fullgraph=True)
for _ in range(60):
    optimizer.zero_grad()
    loss = compiled(x)
    loss.backward()
    optimizer.step()
print(f"loss {first:.3f} → {loss.item():.3f}; operators left to PyTorch: {hologram_torch.stats()['fallback_ops'] or 'none'}")
assert loss.item() < 0.5 * first and not hologram_torch.stats()["fallback_ops"]

exported = torch.export.export(model, (x,))  # other compilers see torch.ops.example.rms_norm
print([str(node.target) for node in exported.graph.nodes if "rms_norm" in str(node.target)])
