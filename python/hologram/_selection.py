# hologram/_selection.py: what hologram.jit knows about x[mask] and about order
# mypy: disable-error-code="no-any-return,return-value"
"""A masked selection, whose size is not known while tracing, up to the reduction that ends it; sorting."""

import math
import operator
from typing import Any

import numpy as np

from hologram._operands import lifted, tracer_of
from hologram._registry import FLOATS, FUNCTIONS, HOOKS, implements
from hologram._ufuncs import Loop
from hologram.trace import Array, TraceError, product

# --- selections


class Selection(np.lib.mixins.NDArrayOperatorsMixin):
    """x[mask]: the chosen elements in a row. Element-wise functions and reductions of it are known; it is no result by itself."""

    def __init__(self, array: Array, mask: Array) -> None:
        if mask.ndim != array.ndim:
            raise TraceError("hologram.jit: a mask must have as many dimensions as the array")
        for axis, (n, m) in enumerate(zip(array.shape, mask.shape)):
            if n != m:
                raise IndexError(f"boolean index did not match indexed array along axis {axis}; size is {n} but the mask's is {m}")
        self.array, self.mask = array.make(array.value), mask.make(mask.value)  # copies: NumPy's is one
        self._chosen: Any = None

    ndim = 1

    def chosen(self) -> Array:
        """The elements as an array, by NumPy: a step, as their number depends on values."""
        if self._chosen is None:
            self._chosen = HOOKS["function"](self.array.tracer, operator.getitem, None, (self.array, self.mask), {})
        return self._chosen

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def size(self) -> Any:
        count = np.sum(self.mask)
        return Array(count.tracer, count.value, weak=True)  # NumPy's is a Python number

    def astype(self, dtype: Any, **_: Any) -> "Selection":
        return Selection(self.array.astype(dtype), self.mask)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        if out is not None:
            new = getattr(ufunc, method)(*inputs, **options)
            if out[0] is not self or not isinstance(new, Selection):
                return HOOKS["out"](chosen(new), chosen(out), "same_kind")
            if not np.can_cast(new.dtype, self.dtype, "same_kind"):
                raise TypeError(f"Cannot cast output from {new.dtype} to {self.dtype} with casting rule 'same_kind'")
            self.array, self._chosen = new.array.astype(self.dtype), None
            return self
        try:
            return self._apply(ufunc, method, *inputs, **options)
        except TraceError:
            pass
        return getattr(ufunc, method)(*map(chosen, inputs), **options)

    def _apply(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "reduce" and len(inputs) == 1:
            return self._reduce(getattr(np, {"add": "sum", "multiply": "prod"}.get(ufunc.__name__, ""), None), inputs, options)
        plain = []
        for x in inputs:
            if isinstance(x, Selection):
                if x.mask.value != self.mask.value:
                    raise TraceError("hologram.jit: selections by different masks cannot be combined")
                plain.append(x.array)
            elif np.ndim(x) == 0:
                plain.append(x)
            else:
                raise TraceError("hologram.jit: a selection goes with numbers and with selections by the same mask")
        return Selection(getattr(ufunc, method)(*plain, **options), self.mask)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        try:
            return self._reduce(function, args, dict(kwargs))
        except TraceError:
            pass
        return function(*map(chosen, args), **{name: chosen(value) for name, value in kwargs.items()})

    def _reduce(self, function: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(function, "__name__", "")
        if name not in ("sum", "prod", "max", "amax", "min", "amin", "mean", "var", "std", "any", "all", "count_nonzero"):
            raise TraceError(f"hologram.jit: numpy.{name} of a selection is not supported; its size depends on values")
        if kwargs.pop("axis", None) not in (None, 0, -1) or len(args) > 1:
            raise TraceError(f"hologram.jit: numpy.{name} of a selection takes no further positional arguments")
        if name == "count_nonzero":
            return np.sum(self.array.astype(np.bool_) & self.mask)
        if name.endswith(("max", "min")) and "initial" not in kwargs:
            kwargs["initial"] = least(self.dtype) if name.endswith("max") else most(self.dtype)
        return FUNCTIONS[function](self.array, where=self.mask, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.chosen(), name)

    def __getitem__(self, key: Any) -> Any:
        return self.chosen()[key]

    def __len__(self) -> int:
        return len(self.chosen())

    def __iter__(self) -> Any:
        return iter(self.chosen())

    def __bool__(self) -> bool:
        return bool(self.chosen())

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.chosen().__array__()

    def __repr__(self) -> str:
        return f"<traced selection of {self.array!r}>"


def chosen(value: Any) -> Any:
    """The value with arrays in place of selections."""
    if isinstance(value, Selection):
        return value.chosen()
    return type(value)(map(chosen, value)) if type(value) in (list, tuple) else value


def least(dtype: Any) -> Any:
    """What no value of the dtype is smaller than."""
    dtype = np.dtype(dtype)
    return False if dtype == np.bool_ else -np.inf if dtype.kind not in "iu" else int(np.iinfo(dtype).min)


def most(dtype: Any) -> Any:
    dtype = np.dtype(dtype)
    return True if dtype == np.bool_ else np.inf if dtype.kind not in "iu" else int(np.iinfo(dtype).max)


def _method(name: str) -> Any:
    def method(self: Selection, **kwargs: Any) -> Any:
        return self.__array_function__(getattr(np, name), (), (self,), kwargs)

    method.__name__ = name
    return method


for _name in "sum prod max min mean var std any all".split():
    setattr(Selection, _name, _method(_name))


@implements("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    if axis is not None:
        raise TraceError("hologram.jit: numpy.compress along an axis is not supported")
    tracer = tracer_of(condition, a)
    return lifted(tracer, a).ravel()[lifted(tracer, condition).ravel()]


@implements("extract")
def extract(condition: Any, arr: Any) -> Any:
    return compress(condition, arr)


# --- order


def _positions(a: Array) -> Any:
    """[rows, n], as a node like it where the elements of every sorted row are, ties in order, and where each row begins."""
    graph, n = a.tracer.graph, a.value.shape[-1]
    flat = graph.reshape(a.value, [product(a.value.shape[:-1]), n])
    position = graph.make("argsort", [flat], ints=[1, 0], exprs=[n])
    size = graph.broadcast(a.tracer.size_value(n).value, list(flat.shape))
    return flat, position, Loop(a.tracer)("mul", graph.iota("i64", list(flat.shape), 0), size)


def _last(a: Any, axis: Any) -> Any:
    """(the array with that axis last, a function that moves it back); the flat array for None."""
    if axis is None:
        return a.ravel(), lambda x: x
    if not -a.ndim <= axis < a.ndim:
        raise np.exceptions.AxisError(axis, a.ndim)
    return np.moveaxis(a, axis, -1), lambda x: np.moveaxis(x, -1, axis)


def _stable(kind: Any, order: Any) -> None:
    if order is not None:
        raise TraceError("hologram.jit: order= is for records, which are not supported")


# NumPy 2 has instructions for them here too, which pay for numbers of 64 bits alone.
_ARGUMENT_LINES = {"i64": 32, "u64": 32, "f64": 32} if np.__version__ >= "2" else {}


@implements("argsort")
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, **_: Any) -> Any:
    _stable(kind, order)
    moved, back = _last(a, axis)
    if kind not in ("stable", "mergesort") and moved.shape[-1] > _ARGUMENT_LINES.get(a.value.dtype, math.inf):
        raise TraceError("hologram.jit: numpy.argsort of lines this long is left to NumPy")
    return back(a.make(a.tracer.graph.reshape(_positions(moved)[1], list(moved.value.shape))))


# NumPy 2 sorts longer lines of these by instructions for it, 2 to 10 times as fast.
_LINES = {"i16": 16, "u16": 16, "i32": 16, "u32": 16, "f32": 16, "i64": 4, "u64": 4, "f64": 4} if np.__version__ >= "2" else {}


@implements("sort")
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, **_: Any) -> Any:
    _stable(kind, order)
    moved, _back = _last(a, axis)
    if kind not in ("stable", "mergesort") and moved.shape[-1] > _LINES.get(a.value.dtype, math.inf):
        raise TraceError("hologram.jit: numpy.sort of lines this long is left to NumPy")
    return sorted_(a, axis)


def sorted_(a: Any, axis: Any = -1) -> Any:
    moved, back = _last(a, axis)
    graph = a.tracer.graph
    flat, position, start = _positions(moved)
    source = Loop(a.tracer)("add", position, start)
    values = graph.make("take", [graph.reshape(flat, [product(flat.shape)]), source], ints=[0])
    return back(a.make(graph.reshape(values, list(moved.value.shape))))


@implements("median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    if out is not None or isinstance(axis, tuple):
        raise TraceError("hologram.jit: numpy.median takes one axis and no out=")
    moved, back = _last(a, axis)
    n = moved.shape[-1]
    if moved.ndim == 1:  # NumPy does not sort all of it: 2 to 5 times as fast for one line
        raise TraceError("hologram.jit: numpy.median of one line is not supported")
    if isinstance(n, int) and n == 0:
        raise TraceError("hologram.jit: the median of nothing is not supported")
    rows = sorted_(moved)
    upper, lower = rows[..., n // 2], rows[..., (n - 1) // 2]
    if a.value.dtype not in FLOATS:
        upper, lower = upper.astype(np.float64), lower.astype(np.float64)
    middle = (lower + upper) / 2 if n % 2 == 0 else lower
    if a.value.dtype in FLOATS:  # NaN is the largest
        middle = np.where(np.isnan(rows[..., -1]), rows[..., -1], middle)
    if keepdims:
        middle = middle.reshape([1] * a.ndim) if axis is None else back(middle[..., None])
    return middle


def _array_method(name: str) -> Any:
    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return getattr(np, name)(self, *args, **kwargs)

    method.__name__ = name
    return method


Array.argsort = _array_method("argsort")  # type: ignore[attr-defined]
