# hologram/_tables.py: searches, interpolation, histograms, choices and comparisons for hologram.jit
# mypy: disable-error-code="no-any-return,return-value"
"""Functions of values and places in tables. A form that a function does not know is an error that names it."""

from typing import Any

import numpy as np

from hologram._operands import lifted, tracer_of
from hologram._registry import FLOATS, implements
from hologram._shapes import traced, unsupported
from hologram.trace import Array, Dim

_SHORT = 16  # edges that every element is compared with; longer tables are halved
_LONGEST, _LONGEST_INTERPOLATED = 1 << 16, 1 << 12  # in longer ones NumPy, which begins where it found the last, is faster


def _before(a: Any, b: Any) -> Any:
    """a < b in the order of sorts, where NaN is the largest."""
    less = a < b
    return less | (np.isnan(b) & ~np.isnan(a)) if a.value.dtype in FLOATS else less


def _count_before(line: Array, x: Array, right: bool) -> Array:
    """How many elements of a sorted line are before each of x (or not behind it)."""

    def passed(edge: Array, key: Array) -> Array:
        return ~_before(key, edge) if right else _before(edge, key)

    n = line.shape[0]
    if isinstance(n, int) and n <= _SHORT:
        return np.sum(passed(line, x[..., None]), axis=-1, dtype=np.int64)
    step = 1 << (int(getattr(n, "hint", n)).bit_length() - 1)
    if not n < 2 * step:  # holds the graph for tables that as many steps halve
        raise unsupported("searchsorted")
    low = np.zeros_like(x, dtype=np.int64)
    while step:
        probe = low + step
        edge = np.take(line, np.minimum(probe, n) - 1)
        low = np.where((probe <= n) & passed(edge, x), probe, low)
        step >>= 1
    return low


@implements("searchsorted")
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    line, x = traced(a, v)
    if sorter is not None or side not in ("left", "right") or line.ndim != 1:
        raise unsupported("searchsorted")
    n = line.shape[0]
    if n == 0 or not n < _LONGEST:
        raise unsupported("searchsorted")
    dtype = x.dtype if x.weak and line.value.dtype in FLOATS else np.result_type(line.dtype, x.dtype)
    return _count_before(line.astype(dtype), x.astype(dtype), side == "right")


@implements("digitize")
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    if isinstance(bins, Array):  # whether they rise is not known
        raise unsupported("digitize")
    bins = np.asarray(bins)
    off = np.diff(bins)
    if not ((off >= 0).all() or (off <= 0).all()) or bins.ndim != 1:
        raise ValueError("bins must be monotonically increasing or decreasing")
    side = "left" if right else "right"
    if (off >= 0).all():
        return searchsorted(bins, x, side)
    return len(bins) - searchsorted(bins[::-1].copy(), x, side)


@implements("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    x, xp, fp = (a.astype(np.float64) if a.value.dtype != "f64" else a for a in traced(x, xp, fp))
    if period is not None or xp.ndim != 1 or fp.ndim != 1:
        raise unsupported("interp")
    n = xp.shape[0]
    if n != fp.shape[0]:
        raise ValueError("fp and xp are not of the same length.")
    if not 2 <= n or not n < _LONGEST_INTERPOLATED:
        raise unsupported("interp")
    at = _count_before(xp, x, True) - 1
    inner = np.minimum(np.maximum(at, 0), n - 2)
    x0, x1, y0, y1 = (np.take(line, inner + step) for line in (xp, fp) for step in (0, 1))
    slope = (y1 - y0) / (x1 - x0)
    value = slope * (x - x0) + y0
    value = np.where(np.isnan(value), slope * (x - x1) + y1, value)  # beside an infinite value
    value = np.where(np.isnan(value) & (y0 == y1), y0, value)
    value = np.where(x == x0, y0, value)
    ends = (fp[0] if left is None else left, fp[n - 1] if right is None else right)
    value = np.where(x < xp[0], ends[0], np.where(x > xp[n - 1], ends[1], np.where(x == xp[n - 1], fp[n - 1], value)))
    return np.where(np.isnan(x), x, value)


@implements("histogram")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:  # noqa: A002
    given = isinstance(bins, (int, np.integer)) and range is not None
    if not isinstance(a, Array) or weights is not None or a.value.dtype == "b8":
        raise unsupported("histogram")
    if isinstance(bins, (Array, Dim, str)) or not (given or np.ndim(bins) == 1) or isinstance(range, Array):
        raise unsupported("histogram")
    edges = np.histogram_bin_edges(np.zeros(1), bins, range)
    if given and a.value.dtype in FLOATS and a.value.dtype != "f64":  # NumPy rounds the edges in a's own dtype
        raise unsupported("histogram")
    x = a.ravel()
    at: Any = searchsorted(edges, x, "right") - 1
    n = len(edges) - 1
    at = np.where(x == edges[-1], n - 1, at)
    at = np.where((at < 0) | (at >= n), n, at)  # what is outside has a place of its own
    graph = a.tracer.graph
    places = graph.number("i64", 0, [n + 1])
    ones = graph.number("i64", 1, at.value.shape)
    counts = a.make(graph.make("scatter", [places, at.value, ones], ints=[0, 1, 0]))[:n]
    if not density:
        return counts, edges
    return counts / np.diff(edges) / np.sum(counts), edges


# --- choices and comparisons


@implements("select")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    tracer = tracer_of(*condlist, *choicelist)
    conditions = [lifted(tracer, c) for c in condlist]
    if any(c.value.dtype != "b8" for c in conditions):
        raise TypeError("select: conditions must be arrays of bools")
    result = default
    for condition, choice in zip(conditions[::-1], choicelist[::-1]):
        result = np.where(condition, choice, result)
    return result


@implements("nan_to_num")
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if not copy:
        raise unsupported("nan_to_num")
    if x.value.dtype not in FLOATS:
        return x.make(x.value)
    most = {"f16": 65504.0, "bf16": 3.3895313892515355e38}.get(x.value.dtype)
    most = float(np.finfo(x.dtype).max) if most is None else most
    high, low = (most if posinf is None else posinf), (-most if neginf is None else neginf)
    result = np.where(np.isnan(x), nan, np.where(x == np.inf, high, np.where(x == -np.inf, low, x)))
    return result.astype(x.dtype)


@implements("isclose")
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    x, y = traced(a, b)
    if y.value.dtype not in FLOATS:
        y = y.astype(np.float64)
    close = ((np.abs(x - y) <= atol + rtol * np.abs(y)) & np.isfinite(y)) | (x == y)
    return close | (np.isnan(x) & np.isnan(y)) if equal_nan else close


@implements("allclose")
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    return np.all(isclose(a, b, rtol, atol, equal_nan))


@implements("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    x, y = traced(a1, a2)
    if x.ndim != y.ndim or any(n != m for n, m in zip(x.shape, y.shape)):
        return False
    same = x == y
    return np.all(same | (np.isnan(x) & np.isnan(y)) if equal_nan else same)


# --- reductions that skip NaN


def _known(a: Any) -> Any:
    return True if a.value.dtype not in FLOATS else ~np.isnan(a)


def _skipping(name: str) -> None:
    def function(a: Any, axis: Any = None, **given: Any) -> Any:
        given = {key: value for key, value in given.items() if value is not np._NoValue}
        if given.keys() - {"keepdims", "dtype", "ddof"}:
            raise unsupported(f"nan{name}")
        return getattr(np, name)(a, axis=axis, where=_known(a), **given)

    implements(f"nan{name}")(function)
    function.__name__ = f"nan{name}"


for _name in ("sum", "prod", "mean", "var", "std"):
    _skipping(_name)


def _nan_extremum(name: str) -> None:
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **given: Any) -> Any:
        if out is not None or any(v is not np._NoValue for v in given.values()):
            raise unsupported(f"nan{name}")
        keepdims = keepdims is True
        if a.value.dtype not in FLOATS:
            return getattr(np, name)(a, axis, keepdims=keepdims)
        known = _known(a)
        found = getattr(np, name)(np.where(known, a, -np.inf if name == "max" else np.inf), axis, keepdims=keepdims)
        return np.where(np.any(known, axis, keepdims=keepdims), found, np.nan)

    implements(f"nan{name}")(function)
    function.__name__ = f"nan{name}"


_nan_extremum("max")
_nan_extremum("min")
