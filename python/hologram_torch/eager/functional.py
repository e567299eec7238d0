# hologram_torch/eager/functional.py: operations on tensors by Hologram's kernels, with gradients
"""Functions of tensors that Hologram computes, eagerly and differentiably.

CPU tensors of any shape and strides; operands are read where they lie, and broadcast where PyTorch does. Results are PyTorch's
own memory and kernels are shared by the process. Each function takes an optional leading Executor, from which it needs nothing:
one that was cleaned up, or whose backend is not the CPU's, is refused.

Raises:
    TypeError: not a tensor, or a dtype without kernels here.
    ValueError: shapes that do not go together, a tensor that is not on the CPU, an Executor of another backend.
    HologramError: an Executor that was cleaned up.
"""

import functools

import torch
from hologram import Executor

from . import autograd

__all__ = """add sub mul div relu sigmoid tanh gelu softmax linear mse_loss cross_entropy binary_cross_entropy""".split()


def _with_executor(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        executor = kwargs.pop("executor", None)
        if args and isinstance(args[0], Executor):
            executor, args = args[0], args[1:]
        if executor is not None and executor.backend != "cpu":  # raises HologramError once cleaned up
            raise ValueError(f"{function.__name__}: an Executor of backend 'cpu' is expected, got one of {executor.backend!r}")
        return function(*args, **kwargs)

    return call


def _arithmetic(name, about):
    operation = getattr(autograd, name)

    def function(input1, input2, out=None):
        if isinstance(input1, torch.Tensor) and isinstance(input2, torch.Tensor) and input1.dtype != input2.dtype:
            raise TypeError(f"{name}: operands of one dtype are expected, got {input1.dtype} and {input2.dtype}")
        result = operation(input1, input2)
        return result if out is None else out.copy_(result)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{about}, broadcast; written to `out` if that is given."
    return _with_executor(function)


add = _arithmetic("add", "input1 + input2")
sub = _arithmetic("sub", "input1 - input2")
mul = _arithmetic("mul", "input1 * input2")
div = _arithmetic("div", "input1 / input2")


@_with_executor
def relu(input, inplace=False):
    """max(input, 0)."""
    result = autograd.relu(input)
    return input.copy_(result) if inplace else result


@_with_executor
def sigmoid(input):
    """1 / (1 + exp(-input))."""
    return autograd.sigmoid(input)


@_with_executor
def tanh(input):
    """Hyperbolic tangent."""
    return autograd.tanh(input)


@_with_executor
def gelu(input, approximate="none"):
    """PyTorch's gelu: the erf form, or the one by tanh for approximate="tanh"."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return autograd.gelu(input) if approximate == "none" else autograd.gelu_tanh(input)


@_with_executor
def softmax(input, dim=None):
    """Softmax along a dimension; over all elements for dim=None."""
    if dim is None:
        return autograd.softmax(input.reshape(-1), options=(0,)).reshape(input.shape)
    return autograd.softmax(input, options=(dim,))


@_with_executor
def linear(input, weight, bias=None):
    """input @ weight.T + bias for input [..., in], weight [out, in], bias [out]."""
    if input.shape[-1:] != weight.shape[1:] or (bias is not None and bias.shape != weight.shape[:1]):
        raise ValueError(
            f"linear: input {tuple(input.shape)}, weight {tuple(weight.shape)} and bias "
            f"{None if bias is None else tuple(bias.shape)} do not go together"
        )
    flat = input.reshape(-1, input.shape[-1])
    out = autograd.linear(flat, weight) if bias is None else autograd.linear_bias(flat, weight, bias)
    return out.reshape(*input.shape[:-1], weight.shape[0])


def _reduction(name, reduction):
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return (reduction,)


def _same_shapes(name, input, target):
    if input.shape != target.shape:
        raise ValueError(f"{name}: input {tuple(input.shape)} and target {tuple(target.shape)} must have one shape")


@_with_executor
def mse_loss(input, target, reduction="mean"):
    """(input - target)^2, averaged, summed, or by element."""
    _same_shapes("mse_loss", input, target)
    return autograd.mse_loss(input, target, options=_reduction("mse_loss", reduction))


@_with_executor
def binary_cross_entropy(input, target, reduction="mean"):
    """PyTorch's: -(target log(input) + (1 - target) log(1 - input)), logarithms at least -100."""
    _same_shapes("binary_cross_entropy", input, target)
    return autograd.binary_cross_entropy(input, target, options=_reduction("binary_cross_entropy", reduction))


@_with_executor
def cross_entropy(input, target, reduction="mean"):
    """PyTorch's: -log softmax(input)[target] for logits [n, classes] and class numbers [n]."""
    if input.ndim != 2 or target.shape != input.shape[:1]:
        raise ValueError(f"cross_entropy: expected logits [n, classes] and targets [n], got {tuple(input.shape)} and {tuple(target.shape)}")
    return autograd.cross_entropy(input, target, options=_reduction("cross_entropy", reduction))
