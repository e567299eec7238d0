# tests/torch/test_devices.py: compiled graphs on a device whose memory the host does not see
import os

import forks
import pytest

PROGRAM = """
import torch, hologram_torch
torch.manual_seed(0)
close = torch.testing.assert_close

# a layer with packed weights, new sizes, new weights
model = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
compiled = torch.compile(model, backend="hologram", dynamic=True)
with torch.no_grad():
    for rows in (5, 9, 1):
        x = torch.randn(rows, 24)
        close(compiled(x), model(x))
    model[0].weight.mul_(2)
    close(compiled(x), model(x))

# gradients
other = torch.compile(model, backend="hologram")
x = torch.randn(6, 24)
other(x).square().sum().backward()
found = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
model(x).square().sum().backward()
for p, g in zip(model.parameters(), found):
    close(g, p.grad)

# mutation, views, a call left to PyTorch, an index out of range
def update(table, index, x):
    table[index] += x
    return torch.linalg.inv(x.reshape(2, 2) * 2 + torch.eye(2) * 9).sum(), table[1:] * 2
fast = torch.compile(update, backend="hologram")
a, b = torch.zeros(6, 4), torch.zeros(6, 4)
x = torch.randn(4)
for row in (0, 3):
    for p, q in zip(fast(a, torch.tensor(row), x), update(b, torch.tensor(row), x)):
        close(p, q)
    close(a, b)
try:
    torch.compile(lambda t, i: t.index_select(0, i), backend="hologram")(a, torch.tensor([9]))
    raise SystemExit("no error")
except IndexError:
    pass
assert hologram_torch.stats()["failed_graphs"] == 0
print("fine")
"""


MODELS = """
import torch, hologram_torch, zoo
close = torch.testing.assert_close

for name in ("llama", "vit"):
    case = zoo.ZOO[name](torch.float32)
    compiled = torch.compile(case.module, backend="hologram")
    with torch.no_grad():
        close(compiled(*case.inputs), case.module(*case.inputs), rtol=1e-4, atol=1e-4)

# steps of training: the optimizer too is a graph
losses = []
for wrap in (lambda f: f, lambda f: torch.compile(f, backend="hologram")):
    model = zoo.ZOO["mlp"](torch.float32).module.train()
    x = zoo.ZOO["mlp"](torch.float32).inputs[0]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
    loss = wrap(lambda: model(x).square().mean())
    step = wrap(optimizer.step)
    found = []
    for _ in range(3):
        value = loss()
        value.backward()
        step()
        optimizer.zero_grad()
        found.append(value.detach())
    losses.append(torch.stack(found))
close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
assert hologram_torch.stats()["failed_graphs"] == 0
print("fine")
"""


@pytest.mark.parametrize("program", [PROGRAM, MODELS], ids=["kinds of graphs", "models"])
def test_graphs_run_on_a_device_that_is_not_the_host(program):
    done = forks.run(program, cwd=os.path.dirname(__file__), env={**os.environ, "HOLOGRAM_BACKEND": "null"})
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), done.stderr
