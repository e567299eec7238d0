# hologram_torch/accelerator/numbers.py: operators whose numbers are tensors
"""A graph holds the numbers that its operator was called with. Where these change from call to call, as a learning rate does, one graph
of a formula takes them as tensors."""

import torch


def _scaled(x, number):
    return x if isinstance(number, int) and number == 1 else x * number


def _lerp(self, end, weight):
    near = weight.abs() < 0.5
    return torch.where(near, self + weight * (end - self), end - (end - self) * (1 - weight))


FORMULAS = {
    "add": lambda self, other, alpha=1: self + _scaled(other, alpha),
    "sub": lambda self, other, alpha=1: self - _scaled(other, alpha),
    "mul": lambda self, other: self * other,
    "div": lambda self, other: self / other,
    "fill": lambda self, value: torch.empty_like(self).copy_(value),
    "lerp": _lerp,
    "addcmul": lambda self, x, y, value=1: self + _scaled(x * y, value),
    "addcdiv": lambda self, x, y, value=1: self + _scaled(x / y, value),
    "clamp_min": lambda self, least: torch.maximum(self, least),
    "clamp_max": lambda self, most: torch.minimum(self, most),
}


def name_of(op) -> str:
    return op._schema.name.partition("::")[2].rstrip("_")


def has_formula(op) -> bool:
    return name_of(op) in FORMULAS and not any(a.name == "rounding_mode" for a in op._schema.arguments)


def formula(op):
    """The operator for numbers that are tensors of float64; its first operand is of float32 or float64."""
    function = FORMULAS[name_of(op)]
    in_place = op._schema.name.endswith("_")

    def call(self, *args, **kwargs):
        convert = lambda x: x.to(self.dtype) if isinstance(x, torch.Tensor) and x.dim() == 0 and x.dtype == torch.float64 else x
        out = function(self, *map(convert, args), **{name: convert(x) for name, x in kwargs.items()})
        return self.copy_(out) if in_place else out

    return call
