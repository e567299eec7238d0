# examples/python/freeze_model.py: a frozen model: calls without Dynamo's guards, weights still seen
import torch

import hologram_torch

model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).eval()
x = torch.randn(1, 16)
frozen = hologram_torch.freeze(model, (x,))

with torch.no_grad():
    torch.testing.assert_close(frozen(x), model(x))
    model[0].weight.mul_(2)  # written in place: the next call packs the weights anew
    torch.testing.assert_close(frozen(x), model(x))
    wide = torch.randn(8, 16)  # another shape: captured once more
    torch.testing.assert_close(frozen(wide), model(wide))
print(f"captured {frozen.captures} times")
assert frozen.captures == 2
