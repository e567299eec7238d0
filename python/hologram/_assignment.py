# hologram/_assignment.py: what a traced program writes: arrays, parts of them, and views
# mypy: disable-error-code="no-any-return,return-value"
"""Assignment as new values, with NumPy's aliasing.

An array that is written has another node afterwards. A view remembers its base and how it is read from it: reading it after the
base was written reads it anew, and writing it writes the base. Where NumPy may or may not have copied (`reshape` of what is
perhaps not row-major), a read or a write for which that matters is a TraceError.
"""

import operator
import sys
from typing import Any, Callable, Optional

import numpy as np

from hologram._movement import _slice
from hologram._operands import aligned, lifted
from hologram._prepared import view_of
from hologram._registry import FUNCTIONS, HOOKS
from hologram._selection import Selection
from hologram.trace import Array, Dim, TraceError, _expr

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
_PERMUTED = {np.transpose, np.ndarray.transpose, np.swapaxes, np.moveaxis}
_RESHAPED = {np.reshape, np.ndarray.reshape, np.ravel, np.ndarray.ravel}
_UNIT = {np.expand_dims, np.squeeze}
_OTHER = {
    getattr(np, name)
    for name in "broadcast_to broadcast_arrays flip fliplr flipud rot90 split array_split hsplit vsplit dsplit diagonal real imag "
    "atleast_1d atleast_2d atleast_3d rollaxis diag unstack matrix_transpose".split()
    if hasattr(np, name)
} | {np.lib.stride_tricks.sliding_window_view}


class View:
    """How an array follows from another one, whose memory it has: `write` gives the base with other values of the view."""

    def __init__(self, base: Array, read: Optional[Callable[[Array], Array]], write: Optional[Callable[[Array, Array], Array]]) -> None:
        self.base, self.read, self.write, self.seen, self.key = base, read, write, base.version, None
        self.how: Any = None  # (function, further arguments, keyword arguments) that NumPy makes it of the base by

    def refresh(self, array: Array) -> None:
        self.base.refresh()
        if self.base.version != self.seen:
            if self.read is None or self.write is None:
                raise TraceError(
                    "hologram.jit: an array was written after a part of it was taken that may be a view or a copy; take it again, or copy()"
                )
            array.become(self.read(self.base))
            array.version += 1
            self.seen = self.base.version


def note_view(function: Any, lowering: Any, args: Any, kwargs: Any, result: Any) -> None:
    """Remembers that the result of a lowering has the memory of its first argument."""
    base = args[0] if args else None
    if not isinstance(base, Array):
        return
    if not isinstance(result, Array):
        if isinstance(result, (list, tuple)) and function in _OTHER:
            for part in result:
                note_view(function, None, args, kwargs, part)
        return
    if result is base or result.alias is not None:
        return
    rest = args[1:]
    _note_memory(function, lowering, base, rest, kwargs, result)
    if result.alias is not None and lowering is not None:  # of a part of a list NumPy's function gives all
        result.alias.how = function, rest, kwargs


def _note_memory(function: Any, lowering: Any, base: Array, rest: Any, kwargs: Any, result: Array) -> None:
    if function is operator.getitem:
        result.boxed |= not result.ndim and _has_ellipsis(rest[0])
        if (result.ndim or result.boxed and (base.ndim or base.boxed)) and _is_basic(rest[0]):
            result.alias = View(base, lambda b: lowering(b, rest[0]), lambda b, new: set_part(b, rest[0], new))
            result.alias.key = rest[0]
    elif function in _PERMUTED:
        order = [_PRIMES.index(n) for n in function(np.empty(_PRIMES[: base.ndim], np.bool_), *rest, **kwargs).shape]
        back = [order.index(i) for i in range(len(order))]
        result.alias = View(base, lambda b: lowering(b, *rest, **kwargs), lambda b, new: _permuted(new, back))
    elif function in _UNIT or (function in _RESHAPED and base.dense):
        result.alias = View(base, lambda b: lowering(b, *rest, **kwargs), lambda b, new: _reshaped(new, b))
        result.dense = function in _RESHAPED
    elif function in _RESHAPED or function in _OTHER:
        result.alias = View(base, None, None)


def _recorder(value: Array) -> Any:
    """Its tracer, which records calls of NumPy (_steps.Recorder)."""
    return value.tracer


def by_numpy(value: Any) -> Any:
    """A result that is a view of an argument, or of what NumPy gave, as NumPy's own view of it; other values as they are."""
    if not isinstance(value, Array) or value.alias is None or value.alias.how is None:
        return value
    base, tracer = value.alias.base, _recorder(value)
    found = base if base.alias is None else by_numpy(base)
    whole = found is base and base.alias is None  # else a view of a view
    if whole and (base.slot is None or not isinstance(tracer.environment[base.slot], np.ndarray)):
        return value
    if base.version or (not whole and found is base):
        return value
    function, rest, kwargs = value.alias.how
    shorter = view_of(function, base.ndim, rest, kwargs, _PRIMES)
    if shorter is None:
        return tracer.host("", function, (found, *rest), kwargs)  # without a name: not counted as what no graph can do
    key, order = shorter
    tracer.views = True
    if key is not None or order is None:
        found = tracer.host("", operator.getitem, (found, (...,) if key is None else key), {})
    return found if order is None else tracer.host("", np.ndarray.transpose, (found, order), {})


def _permuted(a: Array, order: list[int]) -> Array:
    return a.make(a.tracer.graph.permute(a.value, order))


def _reshaped(a: Array, like: Array) -> Array:
    return a.make(a.tracer.graph.reshape(a.value, list(like.value.shape)))


def _is_basic(key: Any) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    return all(k is None or k is Ellipsis or isinstance(k, (slice, Dim)) or _is_int(k) for k in keys)


def _has_ellipsis(key: Any) -> bool:
    return any(k is Ellipsis for k in (key if isinstance(key, tuple) else (key,)))


def _is_int(k: Any) -> bool:
    return isinstance(k, (int, np.integer)) and not isinstance(k, bool)


def assign(array: Array, new: Array) -> None:
    """Gives the array (and what it is a view of) the values of one of its shape and dtype."""
    view = array.alias
    if view is not None:
        view.refresh(array)
        if view.write is None:
            raise TraceError(
                "hologram.jit: written is what may be a view or a copy of another array; write that array, or a copy()"
            )
        assign(view.base, view.write(view.base, new))
        view.seen = view.base.version
    elif array.slot is not None and array.slot < array.tracer.leaves and array.slot not in array.tracer.written:
        if array.slot in array.tracer.scalars:
            raise TypeError(f"'numpy.{array.dtype}' object does not support item assignment")
        array.tracer.written[array.slot] = array
    array.become(new)
    array.version += 1


def fitted(array: Array, value: Any, casting: str = "unsafe") -> Array:
    """The value as one of the array's shape and dtype."""
    source = lifted(array.tracer, value)
    if not source.weak and not np.can_cast(source.dtype, array.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast output from {source.dtype} to {array.dtype} with casting rule '{casting}'")
    if source.weak and casting != "unsafe" and array.dtype.kind in "iub" and source.dtype.kind == "f":
        raise TypeError(f"Cannot cast output from {source.dtype} to {array.dtype} with casting rule '{casting}'")
    tracer = array.tracer
    sizes = [_expr(n) for n in array.shape]
    for n, m in zip(reversed(source.shape), reversed(array.shape)):
        if n != 1 and n != m:
            raise ValueError(f"could not broadcast input array from shape {source.shape} into shape {array.shape}")
    node = tracer.cast(source, array.dtype)
    while len(node.shape) > len(sizes) and node.shape[0] == 1:
        node = tracer.graph.reshape(node, list(node.shape[1:]))
    if len(node.shape) > len(sizes):
        raise ValueError(f"could not broadcast input array from shape {source.shape} into shape {array.shape}")
    return array.make(aligned(tracer, node, sizes))


# --- x[key] = value


def set_part(a: Array, key: Any, value: Any) -> Array:
    """The array with other values at a basic index: reads of the values where they lie, and choices."""
    tracer, graph = a.tracer, a.tracer.graph
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(k is None for k in keys):
        rest = tuple(k for k in keys if k is not None)
        whole, part = FUNCTIONS[operator.getitem](a, key), FUNCTIONS[operator.getitem](a, rest)
        return set_part(a, rest, _reshaped(fitted(whole, value), part))
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys[at : at + 1] = [slice(None)] * (a.ndim - len(keys) + 1)
    keys += [slice(None)] * (a.ndim - len(keys))
    if len(keys) > a.ndim:
        raise IndexError(f"too many indices for array: array is {a.ndim}-dimensional")
    parts, shape, kept = [], [], []
    for d, k in enumerate(keys):
        n = a.shape[d]
        if isinstance(k, slice):
            start, size, step, turned = _slice(n, k)
            kept.append(d)
        else:
            if not (-n <= k) or not (k < n):
                raise IndexError(f"index {k} is out of bounds for axis {d} with size {n}")
            start, size, step, turned = _expr(k + n if k < 0 else k), 1, 1, False
        parts.append((start, size, step, turned, isinstance(k, slice) and k == slice(None)))
        shape.append(size)
    if any(tracer.dim(n) == 0 for n in shape):
        return a
    like = a.make(graph.broadcast(tracer.number(a.dtype, 0), [shape[d] for d in kept]))
    node = graph.reshape(fitted(like, value).value, shape)
    chosen = None
    full = list(a.value.shape)
    moved = [step == 1 and not turned and not whole and np.ndim(value) > 0 for _, _, step, turned, whole in parts]
    if any(moved):  # read at an offset, without an index for each element
        low = [start if m else 0 for m, (start, *_) in zip(moved, parts)]
        node = graph.pad(node, low, [n if m else size for m, n, size in zip(moved, full, shape)], 0)
    for d, (start, size, step, turned, whole) in enumerate(parts):
        if whole:
            continue
        n = full[d]
        place = a.make(graph.iota("i64", [n], 0))
        first, count = a.make(tracer.size_value(start).value), a.make(tracer.size_value(size).value)
        offset = place - first
        inside = (offset >= 0) & (offset < count * step)
        if step != 1:
            inside = inside & (offset % step == 0)
        if not moved[d] and not (isinstance(size, int) and size == 1):
            index = np.minimum(np.maximum(offset if step == 1 else offset // step, 0), count - 1)
            node = graph.make("take", [node, (count - 1 - index if turned else index).value], ints=[d])
        line = [1] * len(full)
        line[d] = n
        mask = graph.reshape(inside.value, line)
        mask = graph.broadcast(mask, full)
        chosen = mask if chosen is None else graph.elementwise("bit_and", [chosen, mask])
    node = graph.broadcast(node, full)
    return a.make(node if chosen is None else graph.make("select", [chosen, node, a.value]))


def set_masked(a: Array, mask: Array, value: Any) -> Array:
    """The array with other values where the mask is true: numbers, or a selection by the same mask."""
    if isinstance(value, Selection):
        if value.mask.value != mask.value:
            raise TraceError("hologram.jit: assignment of a selection by another mask is not supported")
        value = value.array
    elif np.ndim(value):
        raise TraceError("hologram.jit: assignment of a row of values to a mask is not supported")
    if any(n != m for n, m in zip(a.shape, mask.shape)) or mask.ndim > a.ndim:
        raise IndexError(f"boolean index of shape {mask.shape} did not match an array of shape {a.shape}")
    graph, full = a.tracer.graph, list(a.value.shape)
    line = graph.reshape(mask.value, [*full[: mask.ndim], *[1] * (a.ndim - mask.ndim)])
    return a.make(graph.make("select", [graph.broadcast(line, full), fitted(a, value).value, a.value]))


def _set(a: Array, key: Any, value: Any) -> Array:
    if getattr(key, "dtype", None) == np.bool_ and np.ndim(key):
        return set_masked(a, lifted(a.tracer, key), value)
    if not _is_basic(key):
        raise TraceError("hologram.jit: assignment to this index is not supported")
    return set_part(a, key, value)


def _set_by_numpy(a: Any, key: Any, value: Any) -> Any:
    out = np.array(a)
    out[key] = value
    return out


def _put(a: Any, key: Any, value: Any) -> Any:
    a[key] = value
    return a


# Of functions that write a copy of an argument: its position, and what writes it itself where nothing else has it.
_set_by_numpy.in_place = 0, _put  # type: ignore[attr-defined]


def _cast_by_numpy(like: Any, values: Any, casting: Any) -> Any:
    out = np.empty_like(like)
    np.copyto(out, values, casting=casting)
    return out


def _half_by_numpy(a: Any, name: str, value: Any) -> Any:
    return _put_half(np.array(a), name, value)


def _put_half(a: Any, name: str, value: Any) -> Any:
    setattr(a, name, value)
    return a


_half_by_numpy.in_place = 0, _put_half  # type: ignore[attr-defined]


def note_half(a: Array, name: str, half: Array) -> None:
    """Notes that the real or the imaginary part lies in the memory of the complex array."""

    def write(base: Array, new: Array) -> Any:
        return HOOKS["function"](base.tracer, _half_by_numpy, None, (base, name, new), {}, f"ndarray.{name}")

    def read(base: Array) -> Any:
        return HOOKS["function"](base.tracer, operator.attrgetter(name), None, (base,), {}, f"ndarray.{name}")

    half.alias = View(a, read, write)
    half.alias.key = name


def set_half(a: Array, name: str, value: Any) -> None:
    """x.real = value, x.imag = value."""
    if isinstance(value, Array) and value.alias is not None and value.alias.base is a and value.alias.key == name:
        if value.alias.seen == a.version:
            return  # the end of x.real += …, which has written x
    if not a.foreign and name == "imag":
        raise TypeError("array does not have imaginary part to set")
    set_item(a if not a.foreign else getattr(a, name), Ellipsis, value)


def set_item(a: Array, key: Any, value: Any) -> None:
    """x[key] = value."""
    if isinstance(value, Array) and value.alias is not None and value.alias.base is a and value.alias.key is key:
        if value.alias.seen == a.version:
            return  # the end of x[key] += …, which has written x
    new = HOOKS["function"](a.tracer, _set_by_numpy, _set, (a, key, value), {}, "ndarray.__setitem__")
    assign(a, new)


# --- functions that write an argument


def _copied(function: Callable[..., Any], position: int) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        out = np.array(args[position])
        function(*args[:position], out, *args[position + 1 :], **kwargs)
        return out

    def write(*args: Any, **kwargs: Any) -> Any:
        function(*args, **kwargs)
        return args[position]

    call.writes = True  # type: ignore[attr-defined]
    call.in_place = position, write  # type: ignore[attr-defined]
    return call


def _where(condition: Any, new: Any, old: Array) -> Array:
    chosen: Any = np.where(condition, new, old)
    return old.make(chosen.value)


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> Array:
    new = fitted(dst, src, casting)
    return new if where is True else _where(where, new, dst)


def _fill(a: Any, value: Any) -> Array:
    return fitted(a, value)


_WRITES: dict[Any, tuple[int, Any]] = {
    function: (0, None) for function in (np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis, np.ndarray.put)
}
_WRITES |= {np.copyto: (0, _copyto), np.ndarray.fill: (0, _fill), np.ndarray.partition: (0, None)}
_WRITES[np.ndarray.sort] = (0, lambda a, axis=-1, **options: FUNCTIONS[np.sort](a, axis=axis, **options))
_REFUSED = {np.ndarray.resize, np.ndarray.setflags, np.ndarray.setfield, np.ndarray.getfield, np.ndarray.byteswap}


def _write(function: Any) -> Optional[tuple[int, Any]]:
    """(the argument that the function writes, what gives its new value or None); None: it writes none."""
    random = sys.modules.get("numpy.random")  # which takes milliseconds to import: who has its functions did
    if random is not None and function in (random.Generator.shuffle, random.RandomState.shuffle):
        return 1, None
    return _WRITES.get(function)


def write_argument(tracer: Any, function: Any, args: Any, kwargs: Any, name: str) -> bool:
    """Whether the function is one that writes an argument; then it has been written."""
    if function in _REFUSED or (function is np.nan_to_num and not kwargs.get("copy", (*args, True, True)[1])):
        raise TraceError(f"hologram.jit: {name} in place is not supported")
    write = _write(function)
    if hasattr(function, "writes") or (write is None and not name.endswith(".at")):
        return False
    position, lowering = write or (0, None)
    target = args[position] if len(args) > position else None
    if not isinstance(target, Array):
        raise TraceError(f"hologram.jit: {name} writes an array that is not part of the traced program; make it there")
    new = HOOKS["function"](tracer, _copied(function, position), lowering, args, kwargs, name)
    assign(target, new)
    return True


def _filling(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, out: Any, **kwargs: Any) -> Any:
        return function(*args, out=np.array(out), **kwargs)

    return call


def fill(tracer: Any, function: Any, args: Any, kwargs: Any, name: str) -> Any:
    """A method of a generator that fills `out`, which says how many numbers there are."""
    out = kwargs["out"]
    if not isinstance(out, Array):
        raise TraceError(f"hologram.jit: out= of {name} is an array that is not part of the traced program; make it there")
    assign(out, fitted(out, tracer.host(name, _filling(function), args, kwargs)))
    return out


def part_by_numpy(base: Array, key: Any, part: Array) -> None:
    """Notes of what graphs cannot hold that the part has the memory of its base."""

    def read(b: Array) -> Any:
        return HOOKS["function"](b.tracer, operator.getitem, None, (b, key), {})

    def write(b: Array, new: Array) -> Any:
        return HOOKS["function"](b.tracer, _set_by_numpy, None, (b, key, new), {}, "ndarray.__setitem__")

    if _is_basic(key) and isinstance(part, Array) and (part.ndim or part.boxed):
        part.alias = View(base, read, write)
        part.alias.key = key


def write_out(result: Any, out: Any, casting: str, where: Any = True) -> Any:
    """Assigns results to what `out=` names."""
    if isinstance(out, tuple):
        if not isinstance(result, tuple):
            return write_out(result, out[0], casting, where)
        return tuple(r if o is None else write_out(r, o, casting, where) for r, o in zip(result, out))
    if not isinstance(out, Array):
        raise TraceError("hologram.jit: out= inside a traced function is an array that is not part of it; make it there")
    if out.foreign:
        assign(out, HOOKS["function"](out.tracer, _cast_by_numpy, None, (out, result, casting), {}, "numpy.copyto"))
        return out
    new = fitted(out, result, casting)
    if len(new.shape) < np.ndim(result):
        raise ValueError("out= has fewer dimensions than the result")
    assign(out, new if where is True else _where(where, new, out))
    return out


HOOKS.update(set=set_item, written=write_argument, out=write_out, viewed=note_view, view=View, fill=fill, part=part_by_numpy)
HOOKS.update(half=note_half, set_part=set_half, by_numpy=by_numpy)
