# hologram/_series.py: differences, integrals, polynomials, convolutions and statistics for hologram.jit
# mypy: disable-error-code="no-any-return,return-value"
"""Functions along a line. A form that a function does not know is an error that names it."""

from typing import Any

import numpy as np

from hologram._operands import axes_of, lifted, tracer_of
from hologram._registry import FLOATS, implements
from hologram._shapes import part, traced, unsupported
from hologram.trace import Array

_TAPS = 32  # of kernels whose convolution is a sum of shifted copies; NumPy's own call is faster for longer ones


def _floats(a: Array) -> Array:
    return a if a.value.dtype in FLOATS else a.astype(np.float64)


@implements("diff")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Any:
    if n < 0 or not isinstance(a, Array) or not a.ndim:
        raise ValueError("diff: the order must not be negative and the array must have an axis")
    (axis,) = axes_of(axis, a.ndim)
    ends = [v for v in (prepend, append) if v is not np._NoValue]
    if n and any(np.ndim(v) == 0 for v in ends):
        raise unsupported("diff")
    if n and ends:
        joined = ([] if prepend is np._NoValue else [prepend]) + [a] + ([] if append is np._NoValue else [append])
        a = np.concatenate(traced(*joined), axis=axis)
    for _ in range(n):
        high, low = part(a, axis, 1), part(a, axis, 0, -1)
        a = high != low if a.value.dtype == "b8" else high - low
    return a.make(a.value)


def _slope(f: Array, axis: int, step: Any) -> Array:
    n = f.shape[axis]
    if not n >= 2:
        raise ValueError("gradient: each axis needs at least two elements")
    first, last = part(f, axis, 1, 2) - part(f, axis, 0, 1), part(f, axis, -1) - part(f, axis, n - 2, n - 1)
    if np.ndim(step) == 0:
        return np.concatenate([first / step, (part(f, axis, 2) - part(f, axis, 0, -2)) / (2.0 * step), last / step], axis=axis)
    gaps = lifted(f.tracer, step)
    gaps = diff(_floats(gaps)).reshape([-1 if i == axis else 1 for i in range(f.ndim)])
    d1, d2 = part(gaps, axis, 0, -1), part(gaps, axis, 1)
    low, middle, high = part(f, axis, 0, -2), part(f, axis, 1, -1), part(f, axis, 2)
    inner = -d2 / (d1 * (d1 + d2)) * low + (d2 - d1) / (d1 * d2) * middle + d1 / (d2 * (d1 + d2)) * high
    return np.concatenate([first / part(gaps, axis, 0, 1), inner, last / part(gaps, axis, -1)], axis=axis)


@implements("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    if edge_order != 1 or not isinstance(f, Array):
        raise unsupported("gradient")
    axes = axes_of(axis, f.ndim) if not isinstance(axis, (tuple, list)) else [a % f.ndim for a in axis]
    steps = [1.0] * len(axes) if not varargs else list(varargs) * (len(axes) if len(varargs) == 1 and np.ndim(varargs[0]) == 0 else 1)
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    slopes = tuple(_slope(_floats(f), at, step) for at, step in zip(axes, steps))
    return slopes[0] if len(slopes) == 1 else slopes


@implements("trapezoid", "trapz")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    if x is None:
        (y,), gaps = traced(y), dx
    else:
        y, x = traced(y, x)
        if x.ndim == 1:
            gaps = diff(x).reshape([-1 if i == axis % y.ndim else 1 for i in range(y.ndim)])
        else:
            gaps = diff(x, axis=axis)
    (axis,) = axes_of(axis, y.ndim)
    return np.sum(gaps * (part(y, axis, 1) + part(y, axis, 0, -1)) / 2.0, axis=axis)


@implements("polyval")
def polyval(p: Any, x: Any) -> Any:
    if isinstance(p, Array) and not isinstance(p.shape[0], int):
        raise unsupported("polyval")
    terms = list(p) if isinstance(p, Array) else list(np.asarray(p)) if not isinstance(p, (list, tuple)) else list(p)
    (x,) = traced(x) if isinstance(x, Array) else (lifted(tracer_of(*terms), x),)
    if not isinstance(p, Array) and not any(isinstance(t, Array) for t in terms):
        terms = list(np.asarray(p))
    y = np.zeros_like(x)
    for term in terms:
        y = y * x + term
    return y


def _taps(a: Array, kernel: Array, mode: str) -> Any:
    n, m = a.shape[0], kernel.shape[0]
    if not 1 <= m or not m <= _TAPS or "b8" in (a.value.dtype, kernel.value.dtype):
        raise unsupported("convolve")
    m = int(m)
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    low, count = {"full": (m - 1, n + (m - 1)), "same": (m // 2, n), "valid": (0, n - (m - 1))}[mode]
    high = {"full": m - 1, "same": m - 1 - m // 2, "valid": 0}[mode]
    dtype = np.result_type(a.dtype, kernel.dtype)
    a, kernel = a.astype(dtype), kernel.astype(dtype)
    wide = np.pad(a, (low, high)) if low or high else a
    total: Any = None
    for j in range(m):
        term = wide[j : j + count] * kernel[m - 1 - j]
        total = term if total is None else total + term
    return total


@implements("convolve")
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    a, v = (np.atleast_1d(x) for x in traced(a, v))
    if a.ndim != 1 or v.ndim != 1 or a.shape[0] == 0 or v.shape[0] == 0:
        raise ValueError("convolve: the operands must be vectors that are not empty")
    if v.shape[0] > a.shape[0]:
        a, v = v, a
    return _taps(a, v, mode)


@implements("correlate")
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    a, v = (np.atleast_1d(x) for x in traced(a, v))
    if a.ndim != 1 or v.ndim != 1 or a.shape[0] == 0 or v.shape[0] == 0 or v.shape[0] > a.shape[0]:
        raise unsupported("correlate")
    return _taps(a, np.flip(v), mode)


# --- statistics


@implements("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    if out is not None:
        raise unsupported("ptp")
    keep = keepdims is True
    return np.max(a, axis, keepdims=keep) - np.min(a, axis, keepdims=keep)


@implements("average")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    keep = keepdims is True
    if weights is None:
        (a,) = traced(a)
        mean = np.mean(a, axis, keepdims=keep)
        axes = axes_of(axis, a.ndim)
        return (mean, np.sum(np.ones_like(a, dtype=mean.dtype), tuple(axes), keepdims=keep)) if returned else mean
    a, w = traced(a, weights)
    dtype = np.result_type(a.dtype, w.dtype, *([] if a.value.dtype in FLOATS else [np.float64]))
    if w.ndim != a.ndim:
        if not isinstance(axis, int) or w.ndim != 1:
            raise unsupported("average")
        w = w.reshape([-1 if i == axis % a.ndim else 1 for i in range(a.ndim)])
    a, w = a.astype(dtype), np.broadcast_to(w.astype(dtype), a.shape)
    total = np.sum(w, axis, keepdims=keep)
    mean = np.sum(a * w, axis, keepdims=keep) / total
    return (mean, total) if returned else mean


@implements("cov")
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None, aweights: Any = None, *,
    dtype: Any = None,
) -> Any:  # fmt: skip
    if fweights is not None or aweights is not None:
        raise unsupported("cov")
    rows = traced(m) if y is None else traced(m, y)
    if any(r.ndim > 2 for r in rows):
        raise ValueError("cov: operands must have at most two dimensions")
    dtype = dtype or np.result_type(*[r.dtype for r in rows], np.float64)
    rows = [np.atleast_2d(r if rowvar or r.ndim < 2 else r.T).astype(dtype) for r in rows]
    x = rows[0] if y is None else np.concatenate(rows)
    x = x - np.mean(x, axis=1, keepdims=True)
    ddof = ddof if ddof is not None else 0 if bias else 1
    few = isinstance(x.shape[0], int) and x.shape[0] <= 4  # sums of their own are faster than a product of so few rows
    product = (np.sum(x[:, None] * x[None], axis=-1) if few else x @ x.T) / (x.shape[1] - ddof)
    return product.reshape([n for n in product.shape if not (isinstance(n, int) and n == 1)])


@implements("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None, **given: Any) -> Any:
    if any(v is not np._NoValue for v in given.values()):
        raise unsupported("corrcoef")
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    spread = np.sqrt(np.diagonal(c))
    return np.clip(c / spread[:, None] / spread[None, :], -1, 1)
