# hologram_torch/eager/autograd.py: operations with their gradients, both as compiled NumPy functions
"""The operations of `hologram_torch.functional` as nodes of PyTorch's autograd."""

import functools

import numpy as np
import torch
import torch.nn.functional as F
from hologram import jit, special

from .. import functions
from .buffers import as_array, as_tensor, validate_tensor_compatible

__all__ = """Operation add sub mul div relu sigmoid tanh gelu gelu_tanh softmax linear linear_bias mse_loss binary_cross_entropy
cross_entropy""".split()

DEVICES = "cpu", "cuda", "hologram"


class Operation:
    """A function of tensors whose gradients, tangents and batches are operations too, to any order.

    forward(*arrays, *options) gives the result by NumPy, backward(gradient, result, *arrays, *options) the gradients by array; for
    both hologram.jit makes kernels. PyTorch's own function of the same arguments is `reference`: what follows of it (gradients of
    gradients, what torch.func's transforms ask for, tensors on a GPU) is a graph that the compiler of torch.compile's backend makes
    kernels of. Inside of what PyTorch traces, the reference is what it sees. Where `wide`, 16-bit floats are computed in float32
    and rounded once, as PyTorch does it.
    Operands are of one dtype, of floats where `floats`.
    """

    name = "operation"

    def __init__(self, forward, backward, reference, wide=True, floats=True):
        self.floats = floats
        self.forward = jit(_widened(forward, lambda arrays: arrays[:1]) if wide else forward)
        self.backward = jit(_widened(backward, lambda arrays: arrays[2:]) if wide else backward)
        self.reference = reference
        self._made = {}

    def __call__(self, *tensors, options=()):
        """The result.

        Raises:
            TypeError: not a tensor, or a dtype without kernels here.
            ValueError: a tensor on a device without kernels, or one that is not dense.
        """
        self.validate(tensors)
        if is_traced():
            return self.reference(*tensors, *options)
        return _apply(self, options, tensors)[0]

    def validate(self, tensors):
        for t in tensors:
            validate_tensor_compatible(t, DEVICES)
            if self.floats and (not t.is_floating_point() or t.dtype != tensors[0].dtype):
                raise TypeError(f"{self.name}: floats of one dtype are expected, got {t.dtype}; convert with tensor.float()")

    def results(self, *tensors, options=()):
        """The results by PyTorch's functions, as a tuple."""
        return (self.reference(*tensors, *options),)

    def run(self, tensors, options):
        """The results by our kernels, as a tuple, for ordinary tensors."""
        if all(t.device.type == "cpu" for t in tensors):
            return (as_tensor(self.forward(*map(as_array, tensors), *options)),)
        return self._derive(_Whole, options).run(tensors, ())

    def gradient(self, needed, options=()):
        """The operation (gradient by result, [result,] *tensors) → gradient by tensor, of those that are `needed`; a result is
        among the operands where the kernel reads it."""
        return self._derive(_Gradient, needed, options)

    def tangent(self, moved, options=()):
        """The operation (*tensors, *tangents of those that are `moved`) → tangent by result."""
        return self._derive(_Tangent, moved, options)

    def batched(self, axes, options=()):
        """The operation over batches, whose elements lie along `axes`, None where a tensor belongs to all, → results, along axis 0."""
        return self._derive(_Batched, axes, options)

    def _derive(self, kind, *how):
        if (kind, how) not in self._made:
            self._made[kind, how] = kind(self, *how)
        return self._made[kind, how]


class _Whole(Operation):
    """An operation with its options, by a graph."""

    backward = None

    def __init__(self, of, options=()):
        self.of, self.options, self._made = of, options, {}
        self._graph = functions.Compiled(self.results, f"hologram_torch.functional.{type(self).__name__.strip('_').lower()}")

    def __call__(self, *tensors):
        """The results as a tuple."""
        return self.results(*tensors) if is_traced() else _apply(self, (), tensors)

    def results(self, *tensors, options=()):
        return self.of.results(*tensors, options=self.options)

    def run(self, tensors, options):
        return self._graph(*tensors)


class _Gradient(_Whole):
    def __init__(self, of, needed, options):
        super().__init__(of, options)
        self.needed = needed

    def results(self, *given, options=()):
        count = len(given) - len(self.needed)
        gradients, tensors = given[: count - self.reads_result], given[count:]
        function, chosen = _of_some(self, tensors, self.needed)
        return torch.func.vjp(function, *chosen)[1](tuple(gradients))

    @property
    def reads_result(self) -> bool:
        return self.of.backward is not None

    def run(self, tensors, options):
        if not self.reads_result or any(t.device.type != "cpu" for t in tensors):
            return super().run(tensors, options)
        gradients = self.of.backward(*map(as_array, tensors), *self.options)
        return tuple(as_tensor(g) for g, need in zip(gradients, self.needed) if need)


class _Tangent(_Whole):
    def __init__(self, of, moved, options):
        super().__init__(of, options)
        self.moved = moved

    def results(self, *given, options=()):
        tensors, tangents = given[: len(self.moved)], given[len(self.moved) :]
        function, chosen = _of_some(self, tensors, self.moved)
        results, pull = torch.func.vjp(function, *chosen)  # whose gradient this is: torch.func.jvp cannot be called in its like
        return torch.func.vjp(lambda *by: pull(by), *map(torch.zeros_like, results))[1](tuple(tangents))


class _Batched(_Whole):
    def __init__(self, of, axes, options):
        super().__init__(of, options)
        self.axes = axes

    def results(self, *tensors, options=()):
        return torch.func.vmap(super().results, in_dims=self.axes)(*tensors)


def _of_some(derived, tensors, which):
    """(the operation that `derived` is made of as a function of some of the tensors, these)"""
    chosen = [t for t, some in zip(tensors, which) if some]

    def function(*given):
        given = iter(given)
        return derived.of.results(*(next(given) if some else t for t, some in zip(tensors, which)), options=derived.options)

    return function, chosen


def is_traced() -> bool:
    """Whether PyTorch is to see its own operators: it traces, or records what it does."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


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


def _apply(operation, options, tensors):
    """The results as a tuple, with what PyTorch's autograd and torch.func are told."""
    if torch._C._are_functorch_transforms_active():
        return _Transformed.apply(operation, options, *tensors)
    if torch.is_grad_enabled() or torch._C._is_fwd_grad_enabled() and torch.autograd.forward_ad._current_level >= 0:
        return _Node.apply(operation, options, *tensors)
    return operation.run(tensors, options)


class _Node(torch.autograd.Function):
    """An operation in PyTorch's autograd."""

    @staticmethod
    def forward(ctx, operation, options, *tensors):
        results = operation.run(tensors, options)
        _keep(ctx, operation, options, tensors, results)
        return results

    @staticmethod
    def backward(ctx, *gradients):
        needed = ctx.needs_input_grad[2:]
        if not any(needed):
            return (None,) * (2 + len(needed))
        found = iter(_apply(ctx.operation.gradient(needed, ctx.options), (), (*gradients, *ctx.saved_tensors)))
        return (None, None, *(next(found) if need else None for need in needed))

    @staticmethod
    def jvp(ctx, _, __, *tangents):
        tensors = ctx.saved_tensors[-len(tangents) :]
        moved = tuple(t is not None for t in tangents)
        return ctx.operation.tangent(moved, ctx.options)(*tensors, *(t for t in tangents if t is not None))


def _keep(ctx, operation, options, tensors, results):
    ctx.operation, ctx.options = operation, options
    ctx.save_for_forward(*tensors)
    ctx.save_for_backward(*(results if operation.backward is not None else ()), *tensors)


class _Transformed(_Node):
    """The same in the transforms of torch.func, in the form that these ask for and whose calls cost 40 µs more."""

    @staticmethod
    def forward(operation, options, *tensors):
        return operation.run(tensors, options)

    @staticmethod
    def setup_context(ctx, inputs, output):
        operation, options, *tensors = inputs
        _keep(ctx, operation, options, tensors, output)

    @staticmethod
    def vmap(info, in_dims, operation, options, *tensors):
        results = operation.batched(tuple(in_dims[2:]), options)(*tensors)
        return results, (0,) * len(results)


def _like(gradient, x):
    """The gradient summed to the shape that x had before broadcasting."""
    lead = gradient.ndim - x.ndim
    axes = [*range(lead), *(lead + i for i, n in enumerate(x.shape) if isinstance(n, int) and n == 1)]
    if not axes:
        return gradient
    summed = gradient.sum(axis=tuple(axes), keepdims=True)
    return np.squeeze(summed, tuple(range(lead))) if lead else summed


add = Operation(lambda x, y: x + y, lambda g, out, x, y: (_like(g, x), _like(g, y)), torch.add, floats=False)
sub = Operation(lambda x, y: x - y, lambda g, out, x, y: (_like(g, x), _like(-g, y)), torch.sub, floats=False)
mul = Operation(lambda x, y: x * y, lambda g, out, x, y: (_like(g * y, x), _like(g * x, y)), torch.mul, floats=False)
div = Operation(lambda x, y: x / y, lambda g, out, x, y: (_like(g / y, x), _like(-g * x / (y * y), y)), torch.div, floats=False)
relu = Operation(special.relu, lambda g, out, x: (np.where(out > 0, g, 0),), torch.relu, floats=False)
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


def _counts(target):
    """1 where a row counts: PyTorch ignores targets of -100."""
    return np.where(target != -100, 1, 0)


def _cross_entropy(x, target, reduction):
    losses = -np.where(_chosen(x, target), _log_softmax(x), 0).sum(axis=1)
    return losses.sum() / _counts(target).sum().astype(x.dtype) if reduction == "mean" else _REDUCE[reduction](losses)


def _cross_entropy_gradient(g, out, x, target, reduction):
    counts = _counts(target).astype(x.dtype)
    share = (g / counts.sum() if reduction == "mean" else g) * counts
    return share[:, None] * (np.exp(_log_softmax(x)) - np.where(_chosen(x, target), 1.0, 0.0).astype(x.dtype)), None


cross_entropy = Operation(
    _cross_entropy, _cross_entropy_gradient, lambda x, t, reduction: F.cross_entropy(x, t, reduction=reduction), floats=False
)

for _name in __all__[1:]:
    globals()[_name].name = _name
