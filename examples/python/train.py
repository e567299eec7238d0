# examples/python/train.py: training through torch.compile; forward and backward graphs are native kernels
import torch

torch.manual_seed(0)
x = torch.rand(512, 2) * 4 - 2
target = (x.square().sum(-1, keepdim=True) < 2).float()  # inside of a circle

model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
compiled = torch.compile(model, backend="hologram")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)

for step in range(201):
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(compiled(x), target)
    loss.backward()
    optimizer.step()  # the compiled graph reads the new weights in its next call
    if step % 50 == 0:
        print(f"step {step:3}: loss {loss.item():.4f}")

with torch.no_grad():
    right = ((compiled(x) > 0) == (target > 0)).float().mean().item()
print(f"{100 * right:.1f} % of the points are on the right side")
assert right > 0.95
