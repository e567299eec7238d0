# tests/torch/archived.py: small models that tests put into archives
import torch


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(32, 48), torch.nn.Linear(48, 5)

    def forward(self, x):
        return torch.softmax(self.down(torch.nn.functional.gelu(self.up(x))), -1)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls.add_(1)
        return x * self.calls
