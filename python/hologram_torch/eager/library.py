# hologram_torch/eager/library.py: torch.ops.hologram.*, operators that stay whole in graphs
"""Importing this module registers `torch.ops.hologram.add`, `sub`, `mul`, `div`, `relu`, `sigmoid`, `tanh`, `gelu` and `softmax`
with PyTorch: shapes for tracing, gradients, and kernels on the CPU."""

import torch

from . import autograd
from .buffers import as_array, as_tensor

_SHAPES = {
    "add": lambda x, y: torch.add(x, y),
    "sub": lambda x, y: torch.sub(x, y),
    "mul": lambda x, y: torch.mul(x, y),
    "div": lambda x, y: torch.div(x, y),
}
OPERATORS = ("add", "sub", "mul", "div", "relu", "sigmoid", "tanh", "gelu", "softmax")
__all__ = ["OPERATORS", *OPERATORS]


def _dense(tensor):
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _register(name, schema, fake):
    operation = getattr(autograd, name)
    gradients = torch.library.custom_op(
        f"hologram::{name}_backward", lambda *a: _backward(operation, *a), mutates_args=(), schema=_backward_schema(schema)
    )
    gradients.register_fake(lambda g, out, *a: [torch.empty(t.shape, dtype=t.dtype) for t in a if isinstance(t, torch.Tensor)])
    forward = torch.library.custom_op(f"hologram::{name}", lambda *a: _forward(operation, *a), mutates_args=(), schema=schema)
    forward.register_fake(lambda *a: _dense(fake(*a)))

    def setup(ctx, inputs, output):
        ctx.options = [v for v in inputs if not isinstance(v, torch.Tensor)]
        ctx.save_for_backward(output, *[v for v in inputs if isinstance(v, torch.Tensor)])

    def backward(ctx, gradient):
        return (*gradients(gradient, *ctx.saved_tensors, *ctx.options), *[None] * len(ctx.options))

    forward.register_autograd(backward, setup_context=setup)
    return forward


def _backward_schema(schema):
    return "(Tensor gradient, Tensor out, " + schema[1:].split(")")[0] + ") -> Tensor[]"


def _split(values):
    return [as_array(v) if isinstance(v, torch.Tensor) else v for v in values]


def _forward(operation, *values):
    return as_tensor(operation.forward(*_split(values)))


def _backward(operation, gradient, out, *values):
    return [as_tensor(g) for g in operation.backward(*_split((gradient, out, *values)))]


for _name in OPERATORS:
    if _name in _SHAPES:
        globals()[_name] = _register(_name, "(Tensor x, Tensor y) -> Tensor", _SHAPES[_name])
    elif _name == "softmax":
        globals()[_name] = _register(_name, "(Tensor x, int dim) -> Tensor", lambda x, dim: x)
    else:
        globals()[_name] = _register(_name, "(Tensor x) -> Tensor", lambda x: x)
