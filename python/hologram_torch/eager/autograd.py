# hologram_torch/eager/autograd.py: operations with their gradients, both as compiled NumPy functions
"""The operations of `hologram_torch.functional` as nodes of PyTorch's autograd."""

import functools

import numpy as np
import torch
import torch.nn.functional as F
from hologram import jit, special

from .buffers import as_array, as_tensor, validate_tensor_compatible

__all__ = """Operation add sub mul div relu sigmoid tanh gelu gelu_tanh softmax linear linear_bias mse_loss binary_cross_entropy
cross_entropy""".split()


class Operation:
    """forward(*arrays, *options) gives the result; backward(gradient, result, *arrays, *options) the gradients by array.

    PyTorch's own function of the same arguments is `reference`: gradients of gradients and what torch.func transforms are its.
    Where `wide`, 16-bit floats are computed in float32 and rounded once, as PyTorch does it."""

    def __init__(self, forward, backward, reference, wide=True):
        self.forward = jit(_widened(forward, lambda arrays: arrays[:1]) if wide else forward)
        self.backward = jit(_widened(backward, lambda arrays: arrays[2:]) if wide else backward)
        self.reference = reference

    def __call__(self, *tensors, options=()):
        for t in tensors:
            validate_tensor_compatible(t)
        if torch._C._functorch.maybe_current_level() is not None:  # the tensors are torch.func's
            return self.reference(*tensors, *options)
        return _Node.apply(self, options, *tensors)


def _widened(function, like):
    """`function` of 16-bit floats in float32; its results in the dtypes of like(arguments)."""

    @functools.wraps(function)
    def call(*args):
        results = function(*[a.astype(np.float32) if _narrow(a) else a for a in args])
        several = isinstance(results, tuple)
        rounded = [
            r.astype(a.dtype) if _narrow(a) else r for r, a in zip(results if several else (results,), like(args))
        ]
        return tuple(rounded) if several else rounded[0]

    return call


def _narrow(value):
    return getattr(value, "dtype", None) is not None and np.dtype(value.dtype).name in ("float16", "bfloat16")


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx, operation, options, *tensors):
        out = as_tensor(operation.forward(*map(as_array, tensors), *options))
        ctx.operation, ctx.options = operation, options
        ctx.save_for_backward(out, *tensors)
        return out

    @staticmethod
    def backward(ctx, gradient):
        operation, options, needed = ctx.operation, ctx.options, ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():  # the gradient is to have gradients
            return (None, None, *_differentiable(operation.reference, ctx.saved_tensors[1:], options, needed, gradient))
        gradients = operation.backward(as_array(gradient), *map(as_array, ctx.saved_tensors), *options)
        return (None, None, *(as_tensor(g) if need and g is not None else None for g, need in zip(gradients, needed)))


def _differentiable(reference, tensors, options, needed, gradient):
    """The gradients by tensor, where needed, as PyTorch's own operators compute them."""
    views = [t.view_as(t) for t in tensors]  # a tensor may stand twice among the operands
    wanted = [v for v, need in zip(views, needed) if need]
    found = iter(torch.autograd.grad(reference(*views, *options), wanted, gradient, create_graph=True))
    return [next(found) if need else None for need in needed]


def _like(gradient, x):
    """The gradient summed to the shape that x had before broadcasting."""
    lead = gradient.ndim - x.ndim
    axes = [*range(lead), *(lead + i for i, n in enumerate(x.shape) if isinstance(n, int) and n == 1)]
    if not axes:
        return gradient
    summed = gradient.sum(axis=tuple(axes), keepdims=True)
    return np.squeeze(summed, tuple(range(lead))) if lead else summed


add = Operation(lambda x, y: x + y, lambda g, out, x, y: (_like(g, x), _like(g, y)), torch.add)
sub = Operation(lambda x, y: x - y, lambda g, out, x, y: (_like(g, x), _like(-g, y)), torch.sub)
mul = Operation(lambda x, y: x * y, lambda g, out, x, y: (_like(g * y, x), _like(g * x, y)), torch.mul)
div = Operation(lambda x, y: x / y, lambda g, out, x, y: (_like(g / y, x), _like(-g * x / (y * y), y)), torch.div)
relu = Operation(special.relu, lambda g, out, x: (np.where(out > 0, g, 0),), torch.relu)
sigmoid = Operation(special.sigmoid, lambda g, out, x: (g * out * (1 - out),), torch.sigmoid)
tanh = Operation(np.tanh, lambda g, out, x: (g * (1 - out * out),), torch.tanh)


def _gelu_gradient(g, out, x):
    density = np.exp(x * x * -0.5) * 0.3989422804014327
    return (g * ((1 + special.erf(x * 0.7071067811865476)) * 0.5 + x * density),)


gelu = Operation(special.gelu, _gelu_gradient, F.gelu)


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def _gelu_tanh_gradient(g, out, x):
    t = np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
    inner = 0.7978845608028654 * (1 + 0.134145 * x * x)
    return (g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner),)


gelu_tanh = Operation(_gelu_tanh, _gelu_tanh_gradient, lambda x: F.gelu(x, approximate="tanh"))


def _softmax(x, dim):
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


softmax = Operation(_softmax, lambda g, out, x, dim: (out * (g - (g * out).sum(axis=dim, keepdims=True)),), torch.softmax)
linear = Operation(lambda x, w: x @ w.T, lambda g, out, x, w: (g @ w, g.T @ x), F.linear, wide=False)
linear_bias = Operation(
    lambda x, w, b: x @ w.T + b, lambda g, out, x, w, b: (g @ w, g.T @ x, g.sum(axis=0)), F.linear, wide=False
)

_REDUCE = {"mean": lambda v: v.mean(), "sum": lambda v: v.sum(), "none": lambda v: v}


def _share(g, x, reduction):
    """The gradient that each element of x gets from the reduced loss."""
    return g / x.size if reduction == "mean" else g


mse_loss = Operation(
    lambda x, t, reduction: _REDUCE[reduction]((x - t) * (x - t)),
    lambda g, out, x, t, reduction: (2 * (x - t) * _share(g, x, reduction), 2 * (t - x) * _share(g, x, reduction)),
    lambda x, t, reduction: F.mse_loss(x, t, reduction=reduction),
)


def _bce(p, t, reduction):
    return _REDUCE[reduction](-(t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log1p(-p), -100)))


def _bce_gradient(g, out, p, t, reduction):
    share = _share(g, p, reduction)
    return share * (p - t) / np.maximum((1 - p) * p, 1e-12), share * (np.log1p(-p) - np.log(p))


binary_cross_entropy = Operation(
    _bce, _bce_gradient, lambda p, t, reduction: F.binary_cross_entropy(p, t, reduction=reduction)
)


def _chosen(x, target):
    return target[:, None] == np.arange(int(x.shape[1]))


def _log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def _cross_entropy(x, target, reduction):
    return _REDUCE[reduction](-np.where(_chosen(x, target), _log_softmax(x), 0).sum(axis=1))


def _cross_entropy_gradient(g, out, x, target, reduction):
    share = g / x.shape[0] if reduction == "mean" else g if reduction == "sum" else g[:, None]
    return share * (np.exp(_log_softmax(x)) - np.where(_chosen(x, target), 1.0, 0.0).astype(x.dtype)), None


cross_entropy = Operation(
    _cross_entropy, _cross_entropy_gradient, lambda x, t, reduction: F.cross_entropy(x, t, reduction=reduction)
)
