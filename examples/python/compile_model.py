# examples/python/compile_model.py: a model through torch.compile, for batches of any size
import torch

import hologram_torch


class Classifier(torch.nn.Module):
    def __init__(self, features=32, classes=5):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(features, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, classes)
        )

    def forward(self, x):
        return torch.softmax(self.layers(x), -1)


model = Classifier().eval()
compiled = torch.compile(model, backend="hologram", dynamic=True)
with torch.no_grad():
    for batch in (3, 16, 200):
        x = torch.randn(batch, 32)
        torch.testing.assert_close(compiled(x), model(x))

stats = hologram_torch.stats()
print(f"{stats['graphs']} graph, {stats['kernels']} kernels, left to PyTorch: {stats['fallback_ops'] or 'nothing'}")
print(hologram_torch.explain(model, torch.randn(16, 32)))
