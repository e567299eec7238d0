# examples/python/layers.py: a model of hologram_torch.nn, trained eagerly; a penalty on its gradient needs gradients of gradients
import hologram_torch
import torch
from hologram_torch import functional, nn


class MyModel(torch.nn.Module):
    def __init__(self, executor):
        super().__init__()
        self.first, self.activation, self.second = nn.Linear(executor, 512, 256), nn.Tanh(), nn.Linear(executor, 256, 1)

    def forward(self, x):
        return self.second(self.activation(self.first(x)))


with hologram_torch.Executor() as executor:
    torch.manual_seed(0)
    model = MyModel(executor)
    x = torch.randn(32, 512, requires_grad=True)
    y = x.detach()[:, :1].sign()
    assert model.first(x).shape == (32, 256)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(40):
        out = model(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = functional.mse_loss(executor, out, y) + 1e-3 * slope.square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0], losses
    print(f"loss {losses[0]:.3f} → {losses[-1]:.4f}; left to PyTorch: {hologram_torch.stats()['fallback_ops'] or 'nothing'}")
