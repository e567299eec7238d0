# examples/python/export_model.py: a model as a file, and the file without PyTorch
import hologram
import hologram_torch
import numpy as np
import torch
from torch.export import Dim

model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
with torch.no_grad():
    model[0].weight.copy_(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
    model[0].bias.zero_()

x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
rows = Dim("rows", min=1, max=1 << 20)
report = hologram_torch.export(model, (x,), "model.holo", dynamic_shapes=({0: rows},))
print(report)

loaded = hologram.load("model.holo")
print(loaded, loaded.methods["forward"])
assert np.array_equal(loaded(x.numpy()), model(x).detach())
print(loaded(np.ones((3, 2), np.float32)))
