# hologram/numpy_functions.py: NumPy's functions as graph operations
# mypy: disable-error-code="no-any-return,return-value"
"""Reductions, products, choices and elements; `supported()` names all that `hologram.jit` understands."""

import operator
from typing import Any

import numpy as np

from hologram._movement import broadcast_to
from hologram._operands import aligned, axes_of, boxed, broadcast_shape, lifted, match, tracer_of
from hologram._registry import FLOATS, FUNCTIONS, implements
from hologram._ufuncs import UFUNCS, Loop, loop_dtypes
from hologram.trace import Array, TraceError, name_of, product


# --- reductions


def _reduce(a: Array, op: str, axis: Any, keepdims: Any, dtype: Any = None, out: Any = None) -> Array:
    if out is not None:
        raise TraceError("hologram.jit: out= inside a traced function is not supported")
    node = a.value if dtype is None else a.tracer.cast(a, dtype)
    axes = axes_of(axis, len(node.shape)) if node.shape or axis not in (0, -1) else []
    empty = a.tracer.dim(product(node.shape[i] for i in axes))
    if op in ("max", "min", "argmax", "argmin") and isinstance(empty, int) and empty == 0:
        raise ValueError(f"zero-size array to reduction operation {op} which has no identity")
    if not node.shape and op.startswith("arg"):  # there is one place
        return a.make(a.tracer.number(np.dtype(np.int64), 0))
    reduced, left = node, axes
    if op in ("sum", "max", "min") and axes[:-1] and axes[-1] == len(node.shape) - 1 and _parts_of_rows(node):
        reduced, left = a.tracer.graph.reduce("reduce_" + op, node, axes[-1:]), axes[:-1]
    reduced = a.tracer.graph.reduce("reduce_" + op, reduced, left) if axes else node
    if keepdims is True:
        reduced = a.tracer.graph.reshape(reduced, [1 if i in axes else n for i, n in enumerate(node.shape)])
    return a.make(reduced)


def _parts_of_rows(node: Any, depth: int = 4) -> bool:
    """Whether elements stand in rows with gaps between them: one loop over all would divide for each one's place."""
    if node.op == "slice":
        return bool(node.shape[-1] != node.inputs[0].shape[-1])
    return depth > 0 and any(_parts_of_rows(x, depth - 1) for x in node.inputs if x.shape == node.shape)


def _wide(a: Array, dtype: Any) -> Any:
    """The dtype of NumPy's sums."""
    if dtype is not None:
        return dtype
    kind = a.value.dtype
    if kind in FLOATS:
        return None
    return np.uint64 if kind[0] == "u" else np.int64


def among(a: Array, where: Any, other: Any) -> Array:
    """The array with `other` wherever `where` is false; itself for `where=True`."""
    if where is True:
        return a
    mask = lifted(a.tracer, where)
    if mask.value.dtype != "b8":
        raise TypeError("where= must be an array of bools")
    nodes = match(a.tracer, [mask.value, a.value, a.tracer.number(a.dtype, other)])
    return a.make(Loop(a.tracer).where(*nodes))


def _from(result: Array, ufunc: Any, initial: Any) -> Array:
    return result if initial is None else ufunc(result, initial).astype(result.dtype)


@implements("sum")
def sum_(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Array:
    return _from(_reduce(among(a, where, 0), "sum", axis, keepdims, _wide(a, dtype), out), np.add, initial)


@implements("prod")
def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Array:
    return _from(_reduce(among(a, where, 1), "prod", axis, keepdims, _wide(a, dtype), out), np.multiply, initial)


def _extremum(name: str, a: Any, axis: Any, keepdims: Any, out: Any, initial: Any, where: Any) -> Array:
    if where is not True and initial is None:
        raise ValueError(f"{name}: where= needs initial=, the result where nothing is chosen")
    chosen = among(a, where, initial)
    return _from(_reduce(chosen, name, axis, keepdims, None, out), np.maximum if name == "max" else np.minimum, initial)


@implements("max", "amax")
def max_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Array:
    return _extremum("max", a, axis, keepdims, out, initial, where)


@implements("min", "amin")
def min_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Array:
    return _extremum("min", a, axis, keepdims, out, initial, where)


@implements("any")
def any_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Array:
    return _truth(among(a.astype(np.bool_), where, False), "max", axis, keepdims, out)


@implements("all")
def all_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Array:
    return _truth(among(a.astype(np.bool_), where, True), "min", axis, keepdims, out)


def _truth(a: Array, name: str, axis: Any, keepdims: Any, out: Any) -> Array:
    """The extremum of bools, which nothing has too."""
    if any(isinstance(n, int) and n == 0 for n in a.shape):
        wide = a.astype(np.int8)
        return _reduce(wide, "sum" if name == "max" else "prod", axis, keepdims, None, out).astype(np.bool_)
    return _reduce(a, name, axis, keepdims, np.bool_, out)


@implements("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Array:
    return _reduce(a.astype(np.bool_), "sum", axis, keepdims, np.int64)


def _first(a: Any, axis: Any, keepdims: Any) -> Array:
    """The first place of what is true, of all places; 0 where nothing is. A least place, unlike a reduction that keeps two values,
    is found in one loop with other reductions of the same array."""
    ndim = a.ndim
    flat = a.reshape(-1)
    if isinstance(flat.shape[0], int) and flat.shape[0] == 0:
        return _reduce(flat, "argmax", axis, keepdims)
    places = Array(a.tracer, a.tracer.graph.iota("i64", [flat.value.shape[0]], 0))
    none = np.int64(np.iinfo(np.int64).max)
    candidates: Any = np.where(flat, places, none)
    least: Any = _reduce(candidates, "min", None, False)
    found: Any = np.where(least == none, np.int64(0), least)
    return found.reshape((1,) * ndim) if keepdims else found


def _place(name: str, a: Array, axis: Any, keepdims: Any, out: Any) -> Array:
    """The first place of the extremum. Along short lines that is the least place that has it: 2 to 5 times as fast as a
    reduction that keeps both."""
    if a.value.dtype == "b8" and out is None and a.ndim and (axis is None or a.ndim == 1):
        return _first(a if name == "max" else np.logical_not(a), axis, keepdims)
    last = axis is not None and a.ndim > 1 and axis in (-1, a.ndim - 1) and a.value.dtype != "b8"
    if not last or out is not None or not 0 < a.shape[-1] <= _SHORT:
        return _reduce(a, "arg" + name, axis, keepdims, None, out)
    best = _reduce(a, name, -1, True)
    found = np.equal(a, best) if a.value.dtype not in FLOATS else np.equal(a, best) | np.not_equal(a, a)  # the first NaN, if any
    places = Array(a.tracer, a.tracer.graph.iota("i32", [a.value.shape[-1]], 0))
    candidates: Any = np.where(found, places, np.int32(_SHORT))
    return _reduce(candidates, "min", -1, keepdims).astype(np.int64)


_SHORT = 1 << 10


@implements("argmax")
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    return _place("max", a, axis, keepdims, out)


@implements("argmin")
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    return _place("min", a, axis, keepdims, out)


def _mean(a: Array, axes: list[int], keepdims: Any) -> Array:
    """In a dtype that is wide enough; `a` is float."""
    count = a.tracer.size_value(product(a.value.shape[i] for i in axes))
    return np.true_divide(_reduce(a, "sum", tuple(axes), keepdims), count)


def _float(a: Array, dtype: Any) -> tuple[Array, Any]:
    """(the array in the dtype that means are computed in, the result's dtype)."""
    kind = a.value.dtype
    result = np.dtype(dtype) if dtype is not None else a.dtype if kind in FLOATS else np.dtype(np.float64)
    return a.astype(np.float32 if name_of(result) in ("f16", "bf16") else result), result


@implements("mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Array:
    wide, result = _float(a, dtype)
    if where is not True:
        count = among(full_like(a, 1, np.int64), where, 0)
        return np.true_divide(sum_(wide, axis, None, out, keepdims, where=where), sum_(count, axis, keepdims=keepdims)).astype(result)
    return _mean(wide, axes_of(axis, a.ndim), keepdims).astype(result)


@implements("var")
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True
) -> Array:
    wide, result = _float(a, dtype)
    axes = axes_of(axis, a.ndim)
    if where is not True:
        mask = broadcast_to(lifted(a.tracer, where), a.shape)
        off = wide - mean(wide, tuple(axes), keepdims=True, where=mask)
        count = sum_(mask, axis, keepdims=keepdims)
        return np.true_divide(sum_(off * off, axis, keepdims=keepdims, where=mask), count - ddof).astype(result)
    off = wide - _mean(wide, axes, True)
    total = _reduce(off * off, "sum", tuple(axes), keepdims)
    count = a.tracer.dim(product(a.value.shape[i] for i in axes))
    return np.true_divide(total, lifted(a.tracer, count - ddof)).astype(result)


@implements("std")
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True
) -> Any:
    wide, result = _float(a, dtype)
    return np.sqrt(var(wide, axis, None, None, ddof, keepdims, where=where)).astype(result)


def _scan(a: Array, op: str, axis: Any, dtype: Any) -> Array:
    if axis is None:
        a, axis = a.ravel(), 0
    node = a.tracer.cast(a, _wide(a, dtype) or a.dtype)
    return a.make(a.tracer.graph.make(op, [node], ints=[axis % a.ndim]))


@implements("cumsum")
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
    return _scan(a, "cumsum", axis, dtype)


@implements("cumprod")
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
    return _scan(a, "cumprod", axis, dtype)


# --- products


@implements("matmul")
def matmul(a: Any, b: Any, out: Any = None) -> Array:
    tracer = tracer_of(a, b)
    a, b = lifted(tracer, a), lifted(tracer, b)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: operands must have at least one dimension")
    dtype = np.result_type(a.dtype, b.dtype)
    x, y = tracer.cast(a, dtype), tracer.cast(b, dtype)
    graph = tracer.graph
    vector_a, vector_b = a.ndim == 1, b.ndim == 1
    if vector_a:
        x = graph.reshape(x, [1, x.shape[0]])
    if vector_b:
        y = graph.reshape(y, [y.shape[0], 1])
    if tracer.dim(x.shape[-1]) != tracer.dim(y.shape[-2]):
        raise ValueError(f"matmul: {a.shape} against {b.shape}: {x.shape[-1]} is not {y.shape[-2]}")
    if a.ndim == b.ndim == 1 and name_of(dtype) not in ("f16", "bf16", "b8"):  # a sum has more lanes than a product of one element
        return np.sum(Array(tracer, tracer.cast(a, dtype)) * Array(tracer, tracer.cast(b, dtype)), dtype=dtype)
    batch = broadcast_shape(tracer, x.shape[:-2], y.shape[:-2]) if x.shape[:-2] or y.shape[:-2] else []
    inner = x.shape[-1] if isinstance(x.shape[-1], int) else y.shape[-2]
    x = tracer.settle(x, [*x.shape[:-1], inner])
    y = tracer.settle(y, [*y.shape[:-2], inner, y.shape[-1]])
    x = aligned(tracer, x, [*batch, x.shape[-2], inner])
    y = aligned(tracer, y, [*batch, inner, y.shape[-1]])
    if name_of(dtype) != "b8":  # integers wrap
        node = graph.make("dot_general", [x, y], ints=[0])
    else:
        rank = len(batch)
        wide = [*batch, x.shape[-2], inner, y.shape[-1]]
        x = graph.expand(graph.reshape(x, [*batch, x.shape[-2], inner, 1]), wide)
        y = graph.expand(graph.reshape(y, [*batch, 1, inner, y.shape[-1]]), wide)
        node = graph.reduce("reduce_max", graph.elementwise("mul", [x, y]), [rank + 1])
    shape = list(node.shape)
    if vector_b:
        shape.pop()
    if vector_a:
        shape.pop(-1 if vector_b else -2)
    return Array(tracer, graph.reshape(node, shape) if vector_a or vector_b else node)


@implements("dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    tracer = tracer_of(a, b)
    a, b = lifted(tracer, a), lifted(tracer, b)
    if not a.ndim or not b.ndim:
        return a * b
    if b.ndim > 2:
        raise TraceError("hologram.jit: numpy.dot with more than two dimensions; use matmul")
    return matmul(a, b)


@implements("outer")
def outer(a: Any, b: Any, out: Any = None) -> Any:
    tracer = tracer_of(a, b)
    return lifted(tracer, a).ravel()[:, None] * lifted(tracer, b).ravel()[None, :]


@implements("vdot")
def vdot(a: Any, b: Any) -> Any:
    tracer = tracer_of(a, b)
    return matmul(lifted(tracer, a).ravel(), lifted(tracer, b).ravel())


@implements("inner")
def inner(a: Any, b: Any) -> Any:
    tracer = tracer_of(a, b)
    a, b = lifted(tracer, a), lifted(tracer, b)
    return matmul(a, b if b.ndim < 2 else b.swapaxes(-1, -2))


# --- choices and elements


@implements("where")
def where(condition: Any, x: Any = None, y: Any = None) -> Array:
    if x is None or y is None:
        raise TraceError("hologram.jit: numpy.where needs all three arguments; a result's size must not depend on values")
    tracer = tracer_of(condition, x, y)
    c, a, b = (lifted(tracer, v) for v in (condition, x, y))
    dtype = loop_dtypes(np.add, [a, b], None)[-1] if not a.value.dtype == b.value.dtype == "b8" else np.bool_
    nodes = match(tracer, [tracer.cast(c, np.bool_), tracer.cast(a, dtype), tracer.cast(b, dtype)])
    return Array(tracer, Loop(tracer).where(*nodes))


@implements("clip")
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:  # noqa: A002
    low, high = a_min if a_min is not None else min, a_max if a_max is not None else max
    result = a if low is None else np.maximum(a, low)
    return result if high is None else np.minimum(result, high)


@implements("round", "around")
def round_(a: Any, decimals: int = 0, out: Any = None) -> Any:
    if a.dtype.kind in "iu" and decimals >= 0:
        return a.copy()
    if decimals == 0:
        return np.rint(a)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return np.rint(a * scale) / scale
    return (np.rint(a / scale) * scale).astype(a.dtype) if a.dtype.kind in "iu" else np.rint(a / scale) * scale


@implements("zeros_like", "empty_like")
def zeros_like(a: Any, dtype: Any = None, **_: Any) -> Array:
    return full_like(a, 0, dtype)


@implements("ones_like")
def ones_like(a: Any, dtype: Any = None, **_: Any) -> Array:
    return full_like(a, 1, dtype)


@implements("full_like")
def full_like(a: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Array:
    value = lifted(a.tracer, fill_value)
    return boxed(a.make(a.tracer.graph.broadcast(a.tracer.cast(value, dtype or a.dtype), list(a.value.shape))))


def supported() -> list[str]:
    """Names of the NumPy functions and ufuncs that a traced function may use."""
    return sorted({*UFUNCS, *(f.__name__ for f in FUNCTIONS if f not in (np.ufunc, operator.getitem))})
