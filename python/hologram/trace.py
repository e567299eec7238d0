# hologram/trace.py: stand-ins for arrays that record what is done to them
# mypy: disable-error-code="no-any-return,return-value"
"""Tracing of NumPy code: operators, ufuncs and functions on `Array` append to a graph."""

import functools
import operator
import weakref
from typing import Any, Callable, Optional, Union

import numpy as np

from hologram import _core
from hologram._core import Buffer
from hologram._graph import contiguous_strides as strides
from hologram._graph import numel as product
from hologram._registry import FUNCTIONS, HOOKS

__all__ = ["AGAIN", "Array", "Dim", "Parted", "TraceError", "Tracer", "product", "strides"]


class TraceError(TypeError):
    """A traced function asked for what tracing does not know or support."""


AGAIN = object()  # in what NumPy has given: computed anew where it is asked for


class Parted(Exception):
    """The arguments, or values that NumPy gave, are not those of the plan. `given`: what NumPy gave until then, for objects to
    go on with; None where the first steps are for other arguments."""

    def __init__(self, given: Optional[list[Any]] = None) -> None:
        self.given = given


_NAMES = {"bool": "b8", "bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}
_NAMES |= {f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


@functools.cache
def _found(dtype: Any) -> Optional[str]:
    return _NAMES.get(dtype.name) if dtype.isnative else None  # NumPy makes the text of a name anew each time


def name_of(dtype: Any) -> str:
    """The graph's name of a NumPy dtype."""
    name = _found(np.dtype(dtype))
    if name is None:
        raise TraceError(f"hologram.jit: dtype {dtype} is not supported")
    return name


class Unknown(TraceError):
    """The value of an array was asked for."""


class Dim:
    """A size that is open while tracing. Comparing it or using it as an int makes the graph hold for such sizes only."""

    __slots__ = ("expr", "tracer")

    def __init__(self, tracer: "Tracer", expr: Any) -> None:
        self.tracer, self.expr = tracer, expr

    def _make(self, expr: Any) -> Any:
        return self.tracer.dim(expr)

    def __add__(self, other: Any) -> Any:
        return self._make(self.expr + _expr(other)) if _is_size(other) else self._number(np.add, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._make(self.expr - _expr(other)) if _is_size(other) else self._number(np.subtract, other)

    def __rsub__(self, other: Any) -> Any:
        return self._make(-self.expr + _expr(other)) if _is_size(other) else self._number(lambda a, b: b - a, other)

    def __mul__(self, other: Any) -> Any:
        return self._make(self.expr * _expr(other)) if _is_size(other) else self._number(np.multiply, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._make(_core.floor_div(self.expr, _expr(other))) if _is_size(other) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return self._make(_core.floor_div(_expr(other), self.expr)) if _is_size(other) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return self._make(_core.mod(self.expr, _expr(other))) if _is_size(other) else NotImplemented

    def _number(self, function: Any, other: Any) -> Any:
        """As a number, beside one that is no size."""
        if isinstance(other, complex):  # the step of an np.mgrid
            return function(int(self), other)
        return function(self.tracer.size_value(self.expr), other) if isinstance(other, float) else NotImplemented

    def __pow__(self, other: Any) -> Any:
        return np.power(self.tracer.size_value(self.expr), other)

    def __truediv__(self, other: Any) -> Any:
        return np.true_divide(self.tracer.size_value(self.expr), other)

    def __rtruediv__(self, other: Any) -> Any:
        return np.true_divide(other, self.tracer.size_value(self.expr))

    def __neg__(self) -> Any:
        return self._make(-self.expr)

    @property
    def hint(self) -> int:
        """Its value in the call that is traced."""
        return self.expr.evaluate(self.tracer.hints)

    def __index__(self) -> int:
        value = self.hint
        self.tracer.guard(self.expr - value)
        self.tracer.guard(-self.expr + value)
        return value

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __bool__(self) -> bool:
        return self != 0

    def _order(self, smaller: Any, larger: Any) -> bool:
        """smaller <= larger, noted as a condition on sizes."""
        margin = self.tracer.dim(_expr(larger) - _expr(smaller))
        if isinstance(margin, int):
            return margin >= 0
        if margin.hint >= 0:
            self.tracer.guard(margin.expr)
            return True
        self.tracer.guard(-margin.expr - 1)
        return False

    def __le__(self, other: Any) -> Any:
        return self._order(self, other) if _is_size(other) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return self._order(other, self) if _is_size(other) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return not self._order(other, self) if _is_size(other) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return not self._order(self, other) if _is_size(other) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not _is_size(other):
            return False
        if _core.provably_equal(self.expr, _expr(other)):
            return True
        return self._order(self, other) and self._order(other, self)

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __repr__(self) -> str:
        return str(self.expr)


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, Dim, np.integer)) and not isinstance(value, bool)


def _expr(value: Any) -> Any:
    return value.expr if isinstance(value, Dim) else int(value)


class Tracer:
    """The graph that one trace builds, and what it assumes about the arguments."""

    owns = False  # whether arrays of the program are never written, so that what follows from them alone is kept

    def __init__(self) -> None:
        self.graph = _core.Graph()
        self.patterns: list[Any] = []  # per argument, for ArrayCall
        self.hints: list[int] = []  # value per symbol
        self.guards: dict[Any, Any] = {}  # expressions that must not be negative
        self.constants: list[Any] = []  # arrays that the function refers to
        self.kept: set[int] = set()  # slots of arrays that are never written
        self.written: dict[int, Array] = {}  # arguments that the program writes
        self.scalars: set[int] = set()  # arguments that are NumPy's scalars
        self.arrays: set[int] = set()  # arguments without dimensions for which it matters that they are arrays
        self.seen: dict[Any, Any] = {}  # functions, with what they see in place of NumPy
        self.depth = 0  # of lowerings that are at work
        self.era = 0  # which graph of the trace this one is: a call of NumPy that needs its values ends a graph
        self.slots: list[Any] = []  # per value that is an argument, a constant or computed by a step: (pattern, sizes)
        self.environment: list[Any] = []  # those values, in the call that is traced
        self.leaves = 0
        self.inputs: list[int] = []  # the slots that the graph takes beside the arguments
        self.loaded: dict[int, Any] = {}  # the parameters of the graph, by slot
        self.live: dict[int, Any] = {}  # weak references to the arrays that the program holds
        self._symbols: dict[int, Any] = {}
        self._captured: dict[Any, Array] = {}
        self._parameters = 0

    # --- arguments and results
    def argument(self, leaf: Any, scalar: bool = False) -> Any:
        """The stand-in for one argument, itself for values that are part of the program; scalar: it is a scalar of NumPy's."""
        slot = self.add_slot(leaf)
        self.leaves += 1
        self.scalars.update([slot] * scalar)
        return self.enter(slot)

    def is_boxed(self, slot: int) -> bool:
        """Whether the value is an array without dimensions: unlike NumPy's scalars, it changes where it is written."""
        return slot not in self.scalars and isinstance(self.environment[slot], np.ndarray) and not self.environment[slot].ndim

    def add_slot(self, value: Any, fixed: bool = False) -> int:
        """Notes a value that steps may read."""
        self.slots.append(self._describe(value, fixed))
        self.environment.append(value)
        return len(self.slots) - 1

    def enter(self, slot: int) -> Any:
        """Makes the value an argument of the graph; its stand-in, or itself where it is part of the program."""
        pattern, sizes = self.slots[slot]
        value = self.environment[slot]
        if pattern[0] in ("fixed", "foreign", "object"):
            self.patterns.append(("fixed", value if pattern[0] == "fixed" else None))
            if pattern[0] == "fixed":
                return value
            return HOOKS["object"](self, slot) if pattern[0] == "object" else Array(self, None, slot=slot)
        if slot in self.kept:
            self.patterns.append(("bound", value))
        else:
            self.patterns.append(("array", *pattern[1:]) if pattern[0] == "computed" else pattern)
        name = "f64" if pattern[0] == "number" else name_of(pattern[1])
        node = self.loaded[slot] = self._parameter(name, sizes)
        return Array(self, node, weak=type(value) in (int, float), slot=slot)

    def load(self, slot: int) -> Any:
        """The parameter of the graph for a slot."""
        if slot not in self.loaded:
            pattern = self.slots[slot][0]
            if pattern[0] != "number":
                name_of(pattern[1])
            if slot not in self.kept:
                self.inputs.append(slot)
            self.enter(slot)
        return self.loaded[slot]

    def next_graph(self) -> None:
        """Begins a further graph, for what comes after a step. It takes the arguments, and what else says how large a symbol is."""
        self.graph, self.era = _core.Graph(), self.era + 1
        self.patterns, self.inputs, self.loaded, self._parameters = [], [], {}, 0
        for _ in self.hints:
            self.graph.new_symbol()
        for slot in range(self.leaves):
            self.enter(slot)
        known: set[int] = set()
        for slot, (pattern, _) in enumerate(self.slots):
            symbols = {~d for d in pattern[2] if d < 0} if pattern[0] == "array" else set()
            if symbols - known and slot >= self.leaves:
                self.load(slot)
            known |= symbols

    def _describe(self, value: Any, fixed: bool) -> Any:
        """(pattern, sizes) of a value: what a later one must be for the trace to hold."""
        if type(value) is float:
            return ("number",), []
        if isinstance(value, Buffer):
            return self._pattern(np.dtype(value.dtype), (value.size,), fixed)
        if isinstance(value, (np.ndarray, np.generic, complex)) or type(value) in (int, bool) and fixed is None:
            value = np.asarray(value)
            if _found(value.dtype) is not None:
                return self._pattern(value.dtype, value.shape, bool(fixed))
            known = [self._symbols.get(n) if n > 1 and not fixed else None for n in value.shape]  # where a parameter tells the size
            sizes = [n if symbol is None else symbol[1] for n, symbol in zip(value.shape, known)]
            return ("foreign", value.dtype, [n if s is None else ~s[0] for n, s in zip(value.shape, known)]), sizes
        if isinstance(value, (np.random.Generator, np.random.RandomState)):
            return ("object", type(value)), []
        return ("fixed", value), []

    def _pattern(self, dtype: Any, shape: tuple[int, ...], fixed: bool = False) -> Any:
        sizes, dims = [], []
        for n in shape:
            if n < 2 or fixed:
                sizes.append(n)
                dims.append(n)
                continue
            if n not in self._symbols:  # equal sizes are taken for one
                self._symbols[n] = (len(self.hints), self.graph.new_symbol())
                self.hints.append(n)
            number, symbol = self._symbols[n]
            sizes.append(symbol)
            dims.append(~number)
        return ("array", np.dtype(dtype), dims), sizes

    def _parameter(self, dtype: str, shape: list[Any]) -> Any:
        index = self._parameters
        self._parameters += 1
        return self.graph.parameter(index, dtype, shape, strides(shape))

    @property
    def static(self) -> list[bool]:
        """By parameter of the graph: whether it is never written."""
        return [pattern[0] == "bound" for pattern in self.patterns if pattern[0] != "fixed"]

    def output(self, array: "Array") -> Any:
        """Makes a value a result; (dtype, shape) for ArrayCall."""
        shape = array.value.shape
        self.graph.output(array.value, strides(shape))
        return (array.value.dtype, tuple(shape))

    def constant(self, array: Any) -> "Array":
        """An array of the program: a further argument of the graph."""
        if array.ndim == 0 and array.dtype.name in _NAMES:
            return Array(self, self.number(array.dtype, array.item()))
        memory = (array.__array_interface__["data"][0], array.dtype, array.shape, array.strides)  # views of it come and go
        known = self._captured.get(memory)
        if known is None:
            slot = self.add_slot(array, fixed=True)
            if self.owns:
                self.kept.add(slot)
            else:
                self.constants.append(array)
            known = self._captured[memory] = Array(self, None, slot=slot)
            if not known.foreign:
                self.load(slot)
        return known

    # --- sizes
    def dim(self, expr: Any) -> Union[int, Dim]:
        return expr if isinstance(expr, int) else Dim(self, expr)

    def guard(self, expr: Any) -> None:
        """Holds the graph for calls where the expression is not negative."""
        if not isinstance(expr, int) and not expr.nonnegative:
            self.guards[str(expr)] = expr

    def size_value(self, expr: Any) -> "Array":
        """A size as a number of the graph."""
        if isinstance(expr, int):
            return Array(self, self.number(np.int64, expr), weak=True)
        self.guard(expr)
        line = self.graph.iota("i64", [expr + 1], 0)
        return Array(self, self.graph.reshape(self.graph.slice(line, [expr], [1], [1]), []), weak=True)

    def settle(self, node: Any, sizes: list[Any]) -> Any:
        """The node with these sizes, which guards have made equal to its own."""
        have = node.shape
        if have == sizes or all(_core.provably_equal(n, m) for n, m in zip(have, sizes)):
            return node
        return self.graph.slice(node, [0] * len(sizes), sizes, [1] * len(sizes))

    # --- values
    def number(self, dtype: Any, value: Any) -> Any:
        name = name_of(dtype)
        return self.graph.number(name, int(value) if name[0] != "f" and name != "bf16" else float(value))

    def lift(self, value: Any) -> Optional["Array"]:
        """An Array for anything that may stand beside one; None for what may not."""
        if isinstance(value, Array):
            if value.tracer is not self:
                raise TraceError("hologram.jit: a value of another trace was used")
            return value
        if isinstance(value, Dim):
            return self.size_value(value.expr)
        if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
            dtype = np.bool_ if isinstance(value, bool) else np.int64 if isinstance(value, int) else np.float64
            return Array(self, self.number(dtype, value), weak=not isinstance(value, bool), python=value)
        if isinstance(value, (np.ndarray, np.generic)):
            return self.constant(np.asarray(value))
        if isinstance(value, (list, tuple)) and not any(isinstance(v, Array) for v in value):
            return self.constant(np.asarray(value))
        return None

    def cast(self, array: "Array", dtype: Any) -> Any:
        """The array's node in another dtype, as NumPy's astype."""
        name = name_of(dtype)
        if array.value.dtype == name:
            return array.value
        if array.python is not None:
            return self.number(dtype, array.python)
        floats = array.value.dtype in ("f16", "bf16", "f32", "f64")
        whole = name not in ("f16", "bf16", "f32", "f64", "b8")
        return self.graph.cast(array.value, name, "cast_wrap" if floats and whole else "cast")


def _recorded(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of Array with ndarray's beside it, which stands in where this one does not serve."""
    original = getattr(np.ndarray, method.__name__)

    @functools.wraps(method)
    def call(self: "Array", *args: Any, **kwargs: Any) -> Any:
        return HOOKS["function"](self.tracer, original, method, (self, *args), kwargs)

    return call


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """An array whose values are not known yet. Operators, ufuncs and NumPy functions on it record what they do."""

    __slots__ = ("__weakref__", "_era", "_node", "alias", "boxed", "dense", "python", "slot", "tracer", "version", "weak")

    def __init__(self, tracer: Tracer, value: Any, weak: bool = False, python: Any = None, slot: Optional[int] = None) -> None:
        self.tracer, self._node, self.weak, self.python = tracer, value, weak, python
        self.slot: Any = slot
        self._era = tracer.era
        self.alias: Any = None  # how it follows from another array whose memory it has
        self.version = 0  # how often it was written
        self.dense = False  # known to be row-major in NumPy
        self.boxed = slot is not None and tracer.is_boxed(slot)  # an array though it has no dimensions
        key, live = id(self), tracer.live
        live[key] = weakref.ref(self, lambda _: live.pop(key, None))

    @property
    def value(self) -> Any:
        """Its node in the graph of now. TraceError for dtypes that graphs lack."""
        self.refresh()
        if self._node is None or self._era != self.tracer.era:
            if self.python is not None:
                self._node = self.tracer.number(_core.numpy_dtype(self._node.dtype), self.python)
            else:
                assert self.slot is not None, "a value of an earlier graph was not kept"
                self._node = self.tracer.load(self.slot)
            self._era = self.tracer.era
        return self._node

    def refresh(self) -> None:
        """Reads a view anew whose base was written."""
        if self.alias is not None:
            self.alias.refresh(self)

    def become(self, other: "Array") -> None:
        """Takes the values of another array of its shape."""
        self._node, self._era, self.slot, self.python = other._node, other._era, other.slot, other.python

    @property
    def pending(self) -> bool:
        """Whether it is a value of the graph of now that no slot has."""
        return self.slot is None and self.python is None and self._era == self.tracer.era

    @property
    def foreign(self) -> bool:
        """Whether graphs lack its dtype: what is done with it, NumPy does."""
        return self.slot is not None and self.tracer.slots[self.slot][0][0] == "foreign"

    @property
    def lies_as_computed(self) -> bool:
        """Whether its place in memory is a graph's choice."""
        return self.slot is None or self.tracer.slots[self.slot][0][0] == "computed"

    @property
    def dtype(self) -> Any:
        return self.tracer.slots[self.slot][0][1] if self.foreign else _core.numpy_dtype(self.value.dtype)

    @property
    def shape(self) -> tuple[Any, ...]:
        sizes = self.tracer.slots[self.slot][1] if self.foreign else self.value.shape
        return tuple(self.tracer.dim(n) for n in sizes)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        return self.tracer.dim(product(_expr(n) for n in self.shape))

    @property
    def T(self) -> "Array":
        return self.transpose()

    @property
    def real(self) -> Any:
        return HOOKS["attribute"](self, "real")

    @real.setter
    def real(self, value: Any) -> None:
        HOOKS["set_part"](self, "real", value)

    @property
    def imag(self) -> Any:
        return HOOKS["attribute"](self, "imag")

    @imag.setter
    def imag(self, value: Any) -> None:
        HOOKS["set_part"](self, "imag", value)

    def make(self, value: Any, boxed: bool = False) -> "Array":
        made = Array(self.tracer, value)
        made.boxed = boxed
        return made

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return HOOKS["ufunc"](self.tracer, ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return HOOKS["function"](self.tracer, function, FUNCTIONS.get(function), args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return HOOKS["attribute"](self, name)

    def __eq__(self, other: Any) -> Any:
        return HOOKS["compared"](self, other, np.equal, operator.eq)

    def __ne__(self, other: Any) -> Any:
        return HOOKS["compared"](self, other, np.not_equal, operator.ne)

    def _unknown(self, *_: Any, **__: Any) -> Any:
        raise Unknown(
            "hologram.jit: the function needs the value of an array, which is not known while it is traced; "
            "use numpy.where for choices"
        )

    __bool__ = __int__ = __float__ = __index__ = __complex__ = __array__ = _unknown

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return int(self.shape[0])

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __setitem__(self, key: Any, value: Any) -> None:
        HOOKS["set"](self, key, value)

    def __getitem__(self, key: Any) -> "Array":
        return HOOKS["function"](self.tracer, operator.getitem, FUNCTIONS[operator.getitem], (self, key), {})

    @_recorded
    def astype(self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: Any = True, copy: Any = True) -> "Array":
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return self.make(self.tracer.cast(self, dtype), self.boxed)

    @_recorded
    def copy(self, *_: Any) -> "Array":
        return self.make(self.value, self.boxed)

    @_recorded
    def transpose(self, *axes: Any) -> "Array":
        if not axes or axes[0] is None:
            axes = tuple(reversed(range(self.ndim)))
        elif isinstance(axes[0], (tuple, list)):
            axes = tuple(axes[0])
        return self.make(self.tracer.graph.permute(self.value, [a % self.ndim for a in axes]))

    @_recorded
    def reshape(self, *shape: Any, **_: Any) -> "Array":
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        sizes = [_expr(n) for n in shape]
        if sizes.count(-1) > 1:
            raise ValueError("reshape: only one dimension may be -1")
        if -1 in [n for n in sizes if isinstance(n, int)]:
            at = next(i for i, n in enumerate(sizes) if isinstance(n, int) and n == -1)
            rest = product(n for i, n in enumerate(sizes) if i != at)
            total = product(self.value.shape)
            if isinstance(rest, int) and isinstance(total, int):
                sizes[at] = total // rest
            else:
                sizes[at] = _core.floor_div(total, rest)
        have, want = self.tracer.dim(product(self.value.shape)), self.tracer.dim(product(sizes))
        if have != want:
            raise ValueError(f"reshape: {have} elements do not go into {tuple(shape)}")
        node = self.value
        if not _core.provably_equal(product(sizes), product(node.shape)):
            node = self.tracer.settle(node, [int(n) for n in self.shape])
            sizes = [int(self.tracer.dim(n)) for n in sizes]
        return self.make(self.tracer.graph.reshape(node, sizes))

    @_recorded
    def ravel(self, *_: Any) -> "Array":
        return self.make(self.tracer.graph.reshape(self.value, [product(self.value.shape)]))

    @_recorded
    def flatten(self, *_: Any) -> "Array":
        return self.make(self.tracer.graph.reshape(self.value, [product(self.value.shape)]))

    def swapaxes(self, a: int, b: int) -> "Array":
        axes = list(range(self.ndim))
        axes[a], axes[b] = axes[b], axes[a]
        return self.transpose(axes)

    def __repr__(self) -> str:
        return f"<traced {self.dtype}{list(self.shape)}>"


def _method(name: str) -> Callable[..., Any]:
    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return getattr(np, name)(self, *args, **kwargs)

    method.__name__ = name
    return method


for _name in "sum prod max min mean var std argmax argmin any all clip cumsum cumprod round squeeze dot".split():
    setattr(Array, _name, _method(_name))
