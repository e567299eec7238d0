# hologram/_movement.py: shapes, joining and indexing for hologram.jit
# mypy: disable-error-code="no-any-return,return-value"
"""Functions that move elements, and `x[...]`."""

import operator
from typing import Any

import numpy as np

from hologram._operands import aligned, axes_of, lifted, tracer_of
from hologram._registry import FLOATS, FUNCTIONS, implements
from hologram._selection import Selection
from hologram.trace import Array, Dim, TraceError


# --- movement


@implements("reshape")
def reshape(a: Any, /, shape: Any = None, *args: Any, **kwargs: Any) -> Array:
    shape = kwargs.get("newshape", shape)
    return a.reshape(shape)


@implements("ravel")
def ravel(a: Any, order: Any = "C") -> Array:
    return a.ravel()


@implements("transpose", "permute_dims")
def transpose(a: Any, axes: Any = None) -> Array:
    return a.transpose(axes)


@implements("swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    return a.swapaxes(axis1, axis2)


@implements("moveaxis")
def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    sources = _listed(source, a.ndim)
    destinations = _listed(destination, a.ndim)
    order = [i for i in range(a.ndim) if i not in sources]
    for to, at in sorted(zip(destinations, sources)):
        order.insert(to, at)
    return a.transpose(order)


def _listed(axis: Any, rank: int) -> list[int]:
    return [a % rank for a in (axis if isinstance(axis, (tuple, list)) else [axis])]


@implements("expand_dims")
def expand_dims(a: Any, axis: Any) -> Array:
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    at = _listed(axis, a.ndim + count)
    shape, rest = [], list(a.value.shape)
    for i in range(a.ndim + count):
        shape.append(1 if i in at else rest.pop(0))
    return a.make(a.tracer.graph.reshape(a.value, shape))


@implements("squeeze")
def squeeze(a: Any, axis: Any = None) -> Array:
    shape = list(a.value.shape)
    one = [i for i, n in enumerate(shape) if isinstance(n, int) and n == 1]
    gone = one if axis is None else _listed(axis, a.ndim)
    if set(gone) - set(one):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return a.make(a.tracer.graph.reshape(a.value, [n for i, n in enumerate(shape) if i not in gone]))


@implements("broadcast_to")
def broadcast_to(a: Any, shape: Any, subok: bool = False) -> Array:
    tracer = tracer_of(a, shape)
    return Array(tracer, aligned(tracer, lifted(tracer, a).value, [_plain(n) for n in shape]))


def _plain(n: Any) -> Any:
    return n.expr if isinstance(n, Dim) else int(n)


@implements("concatenate", "concat")
def concatenate(arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, casting: Any = None) -> Array:
    tracer = tracer_of(arrays)
    values = [lifted(tracer, a) for a in arrays]
    if axis is None:
        values, axis = [v.ravel() for v in values], 0
    dtype = dtype or np.result_type(*[v.dtype for v in values])
    if not all(v.ndim for v in values):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis %= values[0].ndim
    nodes, first = [], values[0].value.shape
    for v in values:
        if any(i != axis and tracer.dim(n) != tracer.dim(first[i]) for i, n in enumerate(v.value.shape)):
            raise ValueError(f"concatenate: {values[0].shape} and {v.shape} differ beside axis {axis}")
        sizes = [n if i == axis else first[i] for i, n in enumerate(v.value.shape)]
        nodes.append(tracer.settle(tracer.cast(v, dtype), sizes))
    return Array(tracer, tracer.graph.concat(nodes, axis))


@implements("stack")
def stack(arrays: Any, axis: int = 0, out: Any = None, **_: Any) -> Array:
    tracer = tracer_of(arrays)
    return concatenate([expand_dims(lifted(tracer, a), axis) for a in arrays], axis)


@implements("flip")
def flip(m: Any, axis: Any = None) -> Array:
    return m.make(m.tracer.graph.flip(m.value, axes_of(axis, m.ndim)))


@implements("shape")
def shape_(a: Any) -> Any:
    return a.shape


@implements("ndim")
def ndim(a: Any) -> Any:
    return a.ndim


@implements("size")
def size(a: Any, axis: Any = None) -> Any:
    return a.size if axis is None else a.shape[axis]


@implements("copy")
def copy(a: Any, **_: Any) -> Any:
    return a.copy()


# --- indexing


@implements("take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Array:
    tracer = tracer_of(a, indices)
    a, at = lifted(tracer, a), lifted(tracer, indices)
    if axis is None:
        a, axis = a.ravel(), 0
    if at.value.dtype == "b8" or at.value.dtype in FLOATS:
        raise TraceError("hologram.jit: indices must be integers; a mask's result has a size that depends on values")
    return a.make(tracer.graph.make("take", [a.value, tracer.cast(at, np.int64)], ints=[axis % a.ndim]))


def index(a: Array, key: Any) -> Any:
    """a[key] for integers, slices, None, Ellipsis, and one array of integers; a Selection for an array of bools."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if len(keys) == 1 and getattr(keys[0], "dtype", None) == np.bool_:
        return Selection(a, lifted(a.tracer, keys[0]))
    used = sum(1 for k in keys if k is not None and k is not Ellipsis)
    if used > a.ndim:
        raise IndexError(f"too many indices: {used} for an array with {a.ndim} dimensions")
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    at = next(i for i, k in enumerate(keys) if k is Ellipsis)
    keys[at : at + 1] = [slice(None)] * (a.ndim - used)
    graph, tracer = a.tracer.graph, a.tracer
    node, dim, shape = a.value, 0, []
    starts: list[Any] = [0] * a.ndim
    sizes: list[Any] = list(node.shape)
    steps, flips, gather = [1] * a.ndim, [], None
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        n = tracer.dim(node.shape[dim])
        if isinstance(k, slice):
            start, size, step, turned = _slice(n, k)
            starts[dim], sizes[dim], steps[dim] = start, size, step
            flips += [dim] if turned else []
            shape.append(size)
        elif isinstance(k, (int, np.integer, Dim)) and not isinstance(k, bool):
            if not (-n <= k) or not (k < n):
                raise IndexError(f"index {k} is out of bounds for axis {dim} with size {n}")
            starts[dim], sizes[dim] = _plain(k + n if k < 0 else k), 1
        elif isinstance(k, (Array, np.ndarray, list)) and gather is None:
            gather = (len(shape), k)
            shape.append(sizes[dim])
        else:
            raise TraceError(f"hologram.jit: an index of type {type(k).__name__} here is not supported")
        dim += 1
    if any(s is not n for s, n in zip(sizes, node.shape)) or any(s != 1 for s in steps):
        node = graph.slice(node, starts, sizes, steps)
    if flips:
        node = graph.flip(node, flips)
    node = graph.reshape(node, shape) if shape != list(node.shape) else node
    result = a.make(node)
    return result if gather is None else take(result, gather[1], gather[0])


FUNCTIONS[operator.getitem] = index


def _slice(n: Any, k: slice) -> tuple[Any, Any, int, bool]:
    """(start, size, step, whether it is to be flipped) of a slice of n elements."""
    step = 1 if k.step is None else int(k.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if isinstance(n, int) and not isinstance(k.start, Dim) and not isinstance(k.stop, Dim):
        start, stop, step = k.indices(n)
        size = len(range(start, stop, step))
        if step > 0 or size == 0:
            return (min(start, n), size, max(step, 1), False)
        return (start + (size - 1) * step, size, -step, True)
    if step < 0:
        if k.start is not None or k.stop is not None:
            raise TraceError("hologram.jit: a backward slice of an open size must take all of it")
        size = (n + (-step - 1)) // -step
        first = n - 1 + (size - 1) * step
        return _plain(first), _plain(size), -step, True
    bounds = []
    for bound, default in ((k.start, 0), (k.stop, n)):
        if bound is None:
            bound = default
        elif bound < 0:
            bound = n + bound if n + bound >= 0 else 0
        bounds.append(bound if bound <= n else n)
    start, stop = bounds
    length: Any = stop - start if stop >= start else 0
    size = length if step == 1 else (length + (step - 1)) // step
    return _plain(start), _plain(size), step, False
