# hologram_torch/eager/nn.py: modules over hologram_torch.functional
"""Drop-in modules: `forward(x)` or `forward(executor, x)`. Parameters are named as PyTorch's, so state dicts go both ways."""

import warnings

import torch
from hologram import Executor

from . import functional

__all__ = ["BCELoss", "CrossEntropyLoss", "GELU", "Linear", "MSELoss", "ReLU", "Sigmoid", "Softmax", "Tanh", "replace_modules"]


class ReLU(torch.nn.Module):
    """functional.relu, in the operand's memory with inplace=True."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, *args):
        return functional.relu(*args, inplace=self.inplace)


class Sigmoid(torch.nn.Module):
    """functional.sigmoid."""

    def forward(self, *args):
        return functional.sigmoid(*args)


class Tanh(torch.nn.Module):
    """functional.tanh."""

    def forward(self, *args):
        return functional.tanh(*args)


class GELU(torch.nn.Module):
    """functional.gelu; approximate: "none" or "tanh"."""

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, *args):
        return functional.gelu(*args, approximate=self.approximate)


class Softmax(torch.nn.Module):
    """functional.softmax along `dim`; over all elements, with a warning, for None."""

    def __init__(self, dim=None):
        super().__init__()
        if dim is None:
            warnings.warn("Softmax without dim runs over all elements", stacklevel=2)
        self.dim = dim

    def forward(self, *args):
        return functional.softmax(*args, dim=self.dim)


class Linear(torch.nn.Linear):
    """torch.nn.Linear computed by Hologram. An Executor may come first: Linear(executor, 512, 256)."""

    _executor = (None,)  # in a tuple: no part of the module's state

    def __init__(self, *args, **kwargs):
        self_executor = args[0] if args and isinstance(args[0], Executor) else None
        super().__init__(*(args[1:] if self_executor is not None else args), **kwargs)
        self._executor = (self_executor,)

    def __getstate__(self):
        return {**super().__getstate__(), "_executor": (None,)}

    def forward(self, *args):
        if self._executor[0] is not None and not isinstance(args[0], Executor):
            args = (self._executor[0], *args)
        return functional.linear(*args, self.weight, self.bias)


class _Loss(torch.nn.Module):
    """A function of (input, target); reduction: "mean", "sum" or "none"."""

    def __init__(self, reduction="mean"):
        super().__init__()
        self.reduction = reduction

    def forward(self, *args):
        return self._function(*args, reduction=self.reduction)


class MSELoss(_Loss):
    """functional.mse_loss."""

    _function = staticmethod(functional.mse_loss)


class BCELoss(_Loss):
    """functional.binary_cross_entropy."""

    _function = staticmethod(functional.binary_cross_entropy)


class CrossEntropyLoss(_Loss):
    """functional.cross_entropy."""

    _function = staticmethod(functional.cross_entropy)


_OURS = {getattr(torch.nn, c.__name__): c for c in (GELU, Linear, MSELoss, ReLU, Sigmoid, Softmax, Tanh)}


def replace_modules(model):
    """Makes each GELU, Linear, MSELoss, ReLU, Sigmoid, Softmax and Tanh of PyTorch in `model`, itself included, the module of this
    name here: in place, with its parameters, hooks and references. Subclasses of them stay. Returns the model."""
    for module in model.modules():
        ours = _OURS.get(type(module))
        if ours is not None:
            module.__class__ = ours
    return model
