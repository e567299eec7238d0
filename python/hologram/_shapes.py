# hologram/_shapes.py: rolling, padding, splitting, joining, windows and triangles for hologram.jit
# mypy: disable-error-code="no-any-return,return-value"
"""Functions that move elements, put together from slices, joins and indices.

A form that a function does not know is an error that names it."""

from typing import Any

import numpy as np

from hologram._operands import axes_of, lifted, tracer_of
from hologram._registry import FUNCTIONS, implements
from hologram.trace import Array, Dim, TraceError, product

_SIZES = (int, np.integer, Dim)
_COPIES = 16  # that tile joins; more are read by index, which is slower for each element


def traced(*values: Any) -> list[Any]:
    """The values as arrays of one trace."""
    tracer = tracer_of(*values)
    return [lifted(tracer, v) for v in values]


def unsupported(name: str) -> TraceError:
    """The error for a form of a function that has no lowering."""
    return TraceError(f"hologram.jit: numpy.{name} of these arguments is not supported")


def part(a: Array, axis: int, start: Any = None, stop: Any = None) -> Array:
    """a[start:stop] along one axis."""
    return a[(slice(None),) * (axis % a.ndim) + (slice(start, stop),)]


def positions(a: Array, axis: int) -> Array:
    """The index along an axis, in a shape that broadcasts against the array."""
    n = a.value.shape[axis]
    line = a.tracer.graph.iota("i64", [n], 0)
    return a.make(a.tracer.graph.reshape(line, [n if i == axis % a.ndim else 1 for i in range(a.ndim)]))


def _axis(axis: int, rank: int) -> int:
    (found,) = axes_of(axis, rank)
    return found


@implements("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return roll(a.ravel(), shift, 0).reshape(a.shape)
    axes = axis if isinstance(axis, (tuple, list)) else [axis]
    shifts = shift if isinstance(shift, (tuple, list)) else [shift]
    if not all(isinstance(s, _SIZES) for s in shifts):
        raise unsupported("roll")
    if len(axes) != len(shifts):
        axes, shifts = (list(v) * (max(len(axes), len(shifts)) if len(v) == 1 else 1) for v in (axes, shifts))
    for at, by in zip((_axis(x, a.ndim) for x in axes), shifts):
        n = a.shape[at]
        if not (-n < by and by < n):
            by = int(by) % max(int(n), 1)
        if by < 0:
            by = by + n
        if by != 0:
            a = np.concatenate([part(a, at, n - by), part(a, at, 0, n - by)], axis=at)
    return a.make(a.value)


def _mirrored(a: Array, axis: int, low: int, high: int, skip: int) -> Any:
    n = a.shape[axis]
    pieces: list[Any] = [np.flip(part(a, axis, skip, skip + low), axis)] if low else []
    pieces.append(a)
    if high:
        pieces.append(np.flip(part(a, axis, n - skip - high, n - skip), axis))
    return pieces


def _pieces(a: Array, axis: int, low: int, high: int, mode: str) -> Any:
    """What is joined along an axis, or None where the pattern repeats."""
    n = a.shape[axis]
    if mode == "edge":
        ends = [(low, part(a, axis, 0, 1)), (1, a), (high, part(a, axis, n - 1, n))]
        return [np.repeat(x, count, axis) if x is not a else a for count, x in ends if count]
    skip = 1 if mode == "reflect" else 0
    if not max(low, high) + skip <= n:
        return None
    if mode == "wrap":
        return [x for count, x in ((low, part(a, axis, n - low, n)), (1, a), (high, part(a, axis, 0, high))) if count]
    return _mirrored(a, axis, low, high, skip)


@implements("pad")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    known = mode in ("constant", "edge", "reflect", "symmetric", "wrap") and not options.keys() - {"constant_values"}
    if not known or isinstance(pad_width, dict):
        raise unsupported("pad")
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    if np.asarray(pad_width).dtype.kind not in "iu" or min(map(min, widths), default=0) < 0:
        raise unsupported("pad")
    if mode == "constant":
        value = options.get("constant_values", 0)
        if not isinstance(value, (bool, int, float, np.generic)):
            raise unsupported("pad")
        value = np.asarray(value).astype(array.dtype).item()
        shape = [n + low + high for n, (low, high) in zip(array.value.shape, widths)]
        return array.make(array.tracer.graph.pad(array.value, [low for low, _ in widths], shape, value))
    for axis, (low, high) in enumerate(widths):
        if not low and not high:
            continue
        pieces = _pieces(array, axis, low, high, mode) if array.shape[axis] != 0 else None
        if pieces is None:
            raise unsupported("pad")
        array = np.concatenate(pieces, axis=axis)
    return array.make(array.value)


@implements("repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if not isinstance(repeats, _SIZES) or not isinstance(a, Array):
        raise unsupported("repeat")
    if axis is None:
        a, axis = a.ravel(), 0
    at, count = _axis(axis, a.ndim), getattr(repeats, "expr", repeats)
    shape = a.value.shape
    graph = a.tracer.graph
    wide = graph.reshape(a.value, [*shape[: at + 1], 1, *shape[at + 1 :]])
    wide = graph.broadcast(wide, [*shape[: at + 1], count, *shape[at + 1 :]])
    return a.make(graph.reshape(wide, [*shape[:at], shape[at] * count, *shape[at + 1 :]]))


@implements("tile")
def tile(A: Any, reps: Any) -> Any:  # noqa: N803
    reps = list(reps) if isinstance(reps, (tuple, list)) else [reps]
    if not all(isinstance(r, (int, np.integer)) for r in reps):
        raise unsupported("tile")
    rank = max(A.ndim, len(reps))
    reps = [1] * (rank - len(reps)) + [int(r) for r in reps]
    a = A.reshape([1] * (rank - A.ndim) + list(A.shape))
    for axis, count in enumerate(reps):
        if count > 1:
            a = np.concatenate([a] * count, axis=axis) if count <= _COPIES else _repeated(a, axis, count)
        elif count < 1:
            a = part(a, axis, 0, 0)
    return a.make(a.value)


def _repeated(a: Array, axis: int, count: int) -> Array:
    shape, graph = list(a.value.shape), a.tracer.graph
    node = graph.reshape(a.value, [*shape[:axis], 1, *shape[axis:]])
    node = graph.broadcast(node, [*shape[:axis], count, *shape[axis:]])
    return a.make(graph.reshape(node, [*shape[:axis], count * shape[axis], *shape[axis + 1 :]]))


# --- splitting and joining


@implements("array_split")
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    at = _axis(axis, ary.ndim)
    n, cuts = ary.shape[at], indices_or_sections
    if isinstance(cuts, (int, np.integer)):
        if cuts <= 0:
            raise ValueError("number sections must be larger than 0.")
        size, rest = n // int(cuts), int(n % int(cuts))
        cuts = [size * i + min(i, rest) for i in range(1, int(cuts))]
    elif isinstance(cuts, Array):
        raise unsupported("array_split")
    edges = [0, *cuts, n]
    return [part(ary, at, start, stop) for start, stop in zip(edges, edges[1:])]


@implements("split")
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    at = _axis(axis, ary.ndim)
    if isinstance(indices_or_sections, (int, np.integer)) and ary.shape[at] % int(indices_or_sections) != 0:
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, at)


def _splits(name: str, axis: Any) -> None:
    def function(ary: Any, indices_or_sections: Any) -> Any:
        return split(ary, indices_or_sections, axis if ary.ndim > 1 or axis != 1 else 0)

    implements(name)(function)
    function.__name__ = name


_splits("vsplit", 0)
_splits("hsplit", 1)
_splits("dsplit", 2)


def _at_least(a: Any, rank: int) -> Any:
    """NumPy puts a vector in the middle of three dimensions, and adds the third behind."""
    if a.ndim >= rank:
        return a
    if rank == 3 and a.ndim:
        return a[None, :, None] if a.ndim == 1 else a[:, :, None]
    return a.reshape([1] * (rank - a.ndim) + list(a.shape))


def _ranks(name: str, rank: int) -> None:
    def function(*arys: Any) -> Any:
        arrays = tuple(_at_least(a, rank) for a in traced(*arys))
        return arrays[0] if len(arrays) == 1 else arrays

    implements(name)(function)
    function.__name__ = name


for _rank in (1, 2, 3):
    _ranks(f"atleast_{_rank}d", _rank)


def _stacks(name: str, rank: int, axis: Any) -> None:
    def function(tup: Any, **options: Any) -> Any:
        if not isinstance(tup, (list, tuple)) or options:
            raise unsupported(name)
        arrays = [_at_least(a, rank) for a in traced(*tup)]
        if name == "column_stack":
            arrays = [a if b.ndim > 1 else b[:, None] for a, b in zip(arrays, traced(*tup))]
        return np.concatenate(arrays, axis=0 if name == "hstack" and arrays[0].ndim == 1 else axis)

    implements(*([name, "row_stack"] if name == "vstack" else [name]))(function)
    function.__name__ = name


_stacks("vstack", 2, 0)
_stacks("hstack", 1, 1)
_stacks("dstack", 3, 2)
_stacks("column_stack", 2, 1)


@implements("append")
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    return np.concatenate(traced(arr, values), axis=axis)


@implements("rot90")
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    a, b = (_axis(x, m.ndim) for x in axes)
    k %= 4
    if k == 2:
        return np.flip(m, (a, b))
    if k == 0:
        return m.make(m.value)
    return np.swapaxes(np.flip(m, b), a, b) if k == 1 else np.flip(np.swapaxes(m, a, b), b)


@implements("flipud")
def flipud(m: Any) -> Any:
    return np.flip(m, 0)


@implements("fliplr")
def fliplr(m: Any) -> Any:
    return np.flip(m, 1)


# --- triangles, diagonals, windows


def _triangle(m: Array, k: Any, upper: bool) -> Any:
    if not isinstance(k, (int, np.integer)) or m.ndim < 2:
        raise unsupported("triu or tril")
    off = positions(m, -1) - positions(m, -2)
    return np.where(off >= int(k) if upper else off <= int(k), m, m.make(m.tracer.number(m.dtype, 0)))


@implements("triu")
def triu(m: Any, k: Any = 0) -> Any:
    return _triangle(m, k, True)


@implements("tril")
def tril(m: Any, k: Any = 0) -> Any:
    return _triangle(m, k, False)


@implements("diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    a = np.moveaxis(a, (axis1, axis2), (-2, -1))
    below, right = max(0, -int(offset)), max(0, int(offset))
    rows, columns = a.shape[-2], a.shape[-1]
    if not below <= rows or not right <= columns:
        raise unsupported("diagonal")
    count = rows - below if rows - below <= columns - right else columns - right
    size = getattr(count, "expr", count)
    graph = a.tracer.graph
    flat = graph.reshape(a.value, [*a.value.shape[:-2], product(a.value.shape[-2:])])
    at = a.make(graph.iota("i64", [size], 0)) * (columns + 1) + (below * columns + right)
    return a.make(graph.make("take", [flat, at.value], ints=[a.ndim - 2]))


@implements("diag")
def diag(v: Any, k: int = 0) -> Any:
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    if k != 0:
        raise unsupported("diag")
    off = positions(v, 0)
    return np.where(off[:, None] == off[None, :], v, v.make(v.tracer.number(v.dtype, 0)))


@implements("trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    if out is not None:
        raise unsupported("trace")
    return np.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Any:
    sizes = list(window_shape) if isinstance(window_shape, (tuple, list)) else [window_shape]
    axes = list(range(x.ndim)) if axis is None else [a % x.ndim for a in (axis if isinstance(axis, (tuple, list)) else [axis])]
    if len(axes) != len(sizes):
        raise ValueError(f"window_shape has {len(sizes)} sizes for {len(axes)} axes")
    node = x.value
    for at, size in zip(axes, sizes):
        size, n = int(size), x.tracer.dim(node.shape[at])
        if not size <= n:
            raise ValueError("window shape cannot be larger than input array shape")
        shape = [*node.shape[:at], node.shape[at] - size + 1, *node.shape[at + 1 :], size]
        node = x.tracer.graph.make("window", [node], ints=[at, 1, 1], shape=shape)
    return x.make(node)


FUNCTIONS[np.lib.stride_tricks.sliding_window_view] = sliding_window_view


@implements("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    a, at = traced(arr, indices)
    if axis is None:
        a, axis = a.ravel(), 0
    if a.ndim != at.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    if at.value.dtype[0] not in "iu":
        raise IndexError("`indices` must be an integer array")
    a, at, last = np.moveaxis(a, axis, -1), np.moveaxis(at, axis, -1), a.ndim - 1
    if any(n != m for n, m in zip(a.shape[:-1], at.shape[:-1])):
        raise unsupported("take_along_axis")
    places = a.tracer.settle(a.tracer.cast(at, np.int64), [*a.value.shape[:-1], at.value.shape[-1]])
    found = a.tracer.graph.make("take", [a.value, places], ints=[last, last])
    return np.moveaxis(a.make(found), -1, axis)


@implements("meshgrid")
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    rank = len(xi)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    lines = [x.reshape([-1 if i == order[at] else 1 for i in range(rank)]) for at, x in enumerate(traced(*xi))]
    if sparse:
        return tuple(lines)
    shape = [lines[at].shape[order[at]] for at in order]
    return tuple(np.broadcast_to(x, shape) for x in lines)


@implements("block")
def block(arrays: Any) -> Any:
    def depth(value: Any) -> int:
        return 1 + max(map(depth, value)) if isinstance(value, list) else 0

    def join(value: Any, axis: int) -> Any:
        return np.concatenate([join(v, axis + 1) for v in value], axis=axis) if isinstance(value, list) else _at_least(value, rank)

    def flat(value: Any) -> list[Any]:
        return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]

    levels = depth(arrays)
    values = traced(*flat(arrays))
    rank = max([levels, *[a.ndim for a in values]])
    source = iter(values)

    def lift(value: Any) -> Any:
        return [lift(v) for v in value] if isinstance(value, list) else next(source)

    return join(lift(arrays), rank - levels)


@implements("vander")
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:  # noqa: N803
    count = int(x.shape[0] if N is None else N)
    if x.ndim != 1 or not 0 < count <= _COPIES:
        raise unsupported("vander")
    x = x.astype(np.promote_types(x.dtype, np.int64))
    powers = [np.ones_like(x)]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return np.stack(powers if increasing else powers[::-1], axis=1)
