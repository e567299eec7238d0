# tests/torch/archived.py: small models that tests put into archives
import torch
from harness import module
from hologram import _core

# This machine's instruction set, as HOLOGRAM_CPU_ISA names it.
LEVEL = "amx" if "+amx" in _core.Runtime("cpu").target else _core.Runtime("cpu").target.split()[1]


@module(up=lambda: torch.nn.Linear(32, 48), down=lambda: torch.nn.Linear(48, 5))
def Small(self, x):
    return torch.softmax(self.down(torch.nn.functional.gelu(self.up(x))), -1)


@module(calls=lambda: torch.zeros((), dtype=torch.int64))
def Counter(self, x):
    self.calls.add_(1)
    return x * self.calls
