# tests/torch/test_devices.py: compiled graphs on a device whose memory the host does not see
import os

import forks

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
    return torch.linalg.matrix_exp(x.reshape(2, 2)).sum(), table[1:] * 2
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


def test_graphs_run_on_a_device_that_is_not_the_host():
    done = forks.run(PROGRAM, cwd=os.path.dirname(__file__), env={**os.environ, "HOLOGRAM_BACKEND": "null"})
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), done.stderr
