# hologram_torch/eager/library.py: torch.ops.hologram.*, operators that stay whole in graphs
"""Importing this module registers `torch.ops.hologram.add`, `sub`, `mul`, `div`, `relu`, `sigmoid`, `tanh`, `gelu` and `softmax`
with PyTorch: shapes for tracing, gradients to any order, rules for torch.func, kernels on the CPU. Graphs of the backend take
them in as they do its other operators."""

import functools

import torch

from .. import lowering
from . import autograd
from .custom import broadcast, inlined

_SCHEMA = dict.fromkeys(("add", "sub", "mul", "div"), "(Tensor x, Tensor y) -> Tensor")
_SCHEMA |= dict.fromkeys(("relu", "sigmoid", "tanh", "gelu"), "(Tensor x) -> Tensor")
_SCHEMA["softmax"] = "(Tensor x, int dim) -> Tensor"
OPERATORS = tuple(_SCHEMA)
__all__ = ["OPERATORS", *OPERATORS]


def _register(name, schema):
    operation = getattr(autograd, name)

    def run(*values):
        return operation.run(*_split(values))[0]

    def fake(*values):
        like = operation.reference(*values)
        return torch.empty(like.shape, dtype=like.dtype, device=like.device)

    def setup(ctx, inputs, output):
        tensors, ctx.options = _split(inputs)
        ctx.save_for_backward(output, *tensors)

    def backward(ctx, gradient):
        tensors = ctx.saved_tensors[1:]
        needed = ctx.needs_input_grad[: len(tensors)]
        found = iter(operation.gradient(needed, ctx.options)(gradient, *ctx.saved_tensors))
        return (*(next(found) if need else None for need in needed), *[None] * len(ctx.options))

    def batch(info, axes, *values):
        tensors, options = _split(values)
        options = tuple(axis + 1 if axis >= 0 else axis for axis in options)  # the batch's is the first
        return broadcast(operator, False, info, axes, *tensors, *options)

    operator = torch.library.custom_op(f"hologram::{name}", run, mutates_args=(), schema=schema)
    operator.register_fake(fake)
    operator.register_autograd(backward, setup_context=setup)
    operator.register_vmap(batch)
    lowering.add(f"hologram.{name}.default", functools.partial(inlined, operation.forward, "Tensor"))
    return operator


def _split(values):
    """(the tensors, the options behind them)"""
    count = sum(isinstance(v, torch.Tensor) for v in values)
    return values[:count], values[count:]


for _name, _schema in _SCHEMA.items():
    globals()[_name] = _register(_name, _schema)
