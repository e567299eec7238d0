# hologram_torch/eager/functional.py: operations on tensors by Hologram's kernels, with gradients
"""Functions of tensors that Hologram computes, eagerly and differentiably to any order.

Tensors of any shape and strides, of bool, integers and floats unless a function says floats; operands of two dtypes are refused.
Those of the host are read where they lie, and results are PyTorch's own memory; tensors on a GPU and on device "hologram" are
computed there. Kernels are shared by the process. What `torch.func` makes of these functions (grad, vjp, jvp, jacrev, jacfwd,
hessian, vmap, in any nesting) and gradients of gradients are kernels too. torch.compile, torch.export and make_fx see PyTorch's
operators of the same meaning. Each function takes an optional leading Executor, from which it needs nothing: one that was cleaned
up, or whose backend does not run on the operands, is refused.

Raises:
    TypeError: not a tensor, or a dtype without kernels here.
    ValueError: shapes that do not go together, a tensor on a device without kernels, an Executor of another backend.
    HologramError: an Executor that was cleaned up.
"""

import functools

import torch
from hologram import Executor

from . import autograd
from .buffers import match_device

__all__ = """add sub mul div relu sigmoid tanh gelu softmax linear mse_loss cross_entropy binary_cross_entropy""".split()


def _with_executor(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        executor = kwargs.pop("executor", None)
        if args and isinstance(args[0], Executor):
            executor, args = args[0], args[1:]
        if executor is not None and not torch.compiler.is_compiling():
            _check(function, executor, args)
        return function(*args, **kwargs)

    return call


def _check(function, executor, args):
    ours = executor.backend  # raises HologramError once cleaned up
    expected = match_device(args[0]) if args and isinstance(args[0], torch.Tensor) else "cpu"
    if ours.partition(":")[0] != expected:
        raise ValueError(f"{function.__name__}: an Executor of backend {expected!r} is expected, got one of {ours!r}")


def _arithmetic(name, about, quotient=False):
    operation = getattr(autograd, name)
    dtypes = " (of integers the default dtype's floats)" if quotient else ""

    def function(input1, input2, out=None):
        if isinstance(input1, torch.Tensor) and isinstance(input2, torch.Tensor) and input1.dtype != input2.dtype:
            raise TypeError(f"{name}: operands of one dtype are expected, got {input1.dtype} and {input2.dtype}")
        if quotient and not input1.is_floating_point():
            input1, input2 = input1.to(torch.get_default_dtype()), input2.to(torch.get_default_dtype())
        result = operation(input1, input2)
        return result if out is None else out.copy_(result)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{about}, broadcast; written to `out`, and this returned, if it is given.

    Shapes: any two that broadcast → the broadcast one. Dtypes: one for both operands, which is the result's{dtypes}.
    """
    return _with_executor(function)


add = _arithmetic("add", "input1 + input2")
sub = _arithmetic("sub", "input1 - input2")
mul = _arithmetic("mul", "input1 * input2")
div = _arithmetic("div", "input1 / input2", quotient=True)


@_with_executor
def relu(input, inplace=False):
    """max(input, 0), NaN where input is; in the input's memory with inplace=True.

    Shapes: any → the same. Dtypes: floats and integers.
    """
    if isinstance(input, torch.Tensor) and input.dtype == torch.bool:
        raise TypeError("relu: floats or integers are expected, got torch.bool")
    result = autograd.relu(input)
    return input.copy_(result) if inplace else result


@_with_executor
def sigmoid(input):
    """1 / (1 + exp(-input)). Shapes: any → the same. Dtypes: floats."""
    return autograd.sigmoid(input)


@_with_executor
def tanh(input):
    """Hyperbolic tangent. Shapes: any → the same. Dtypes: floats."""
    return autograd.tanh(input)


@_with_executor
def gelu(input, approximate="none"):
    """PyTorch's gelu: the erf form, or the one by tanh for approximate="tanh".

    Shapes: any → the same. Dtypes: floats. ValueError for another `approximate`.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return autograd.gelu(input) if approximate == "none" else autograd.gelu_tanh(input)


@_with_executor
def softmax(input, dim=None):
    """Softmax along a dimension; over all elements for dim=None. Shapes: any → the same. Dtypes: floats."""
    if dim is None:
        return autograd.softmax(input.reshape(-1), options=(0,)).reshape(input.shape)
    return autograd.softmax(input, options=(dim,))


@_with_executor
def linear(input, weight, bias=None):
    """input @ weight.T + bias.

    Shapes: input [..., in], weight [out, in], bias [out] → [..., out]. Dtypes: floats, one for all. ValueError for other shapes.
    """
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
    """(input - target)^2, averaged, summed, or by element.

    Shapes: input and target of one shape → [], or that shape for reduction="none". Dtypes: floats, one for both. ValueError for two
    shapes and another reduction than "mean", "sum" and "none".
    """
    _same_shapes("mse_loss", input, target)
    return autograd.mse_loss(input, target, options=_reduction("mse_loss", reduction))


@_with_executor
def binary_cross_entropy(input, target, reduction="mean"):
    """PyTorch's: -(target log(input) + (1 - target) log(1 - input)), logarithms at least -100.

    Shapes, dtypes and errors as those of mse_loss; input in [0, 1], which is not looked at.
    """
    _same_shapes("binary_cross_entropy", input, target)
    return autograd.binary_cross_entropy(input, target, options=_reduction("binary_cross_entropy", reduction))


@_with_executor
def cross_entropy(input, target, reduction="mean"):
    """PyTorch's: -log softmax(input)[target]; rows whose target is -100 do not count.

    Shapes: logits [n, classes] of floats and class numbers [n] of integers → [], or [n] for reduction="none". ValueError for others.
    """
    if input.ndim != 2 or target.shape != input.shape[:1]:
        raise ValueError(f"cross_entropy: expected logits [n, classes] and targets [n], got {tuple(input.shape)} and {tuple(target.shape)}")
    if not input.is_floating_point() or target.is_floating_point():
        raise TypeError(f"cross_entropy: logits of floats and targets of integers are expected, got {input.dtype} and {target.dtype}")
    return autograd.cross_entropy(input, target, options=_reduction("cross_entropy", reduction))
