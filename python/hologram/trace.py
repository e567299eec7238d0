# hologram/trace.py: stand-ins for arrays that record what is done to them
# mypy: disable-error-code="no-any-return,return-value"
"""Tracing of NumPy code: operators, ufuncs and functions on `Array` append to a graph."""

import operator
from typing import Any, Callable, Optional, Union

import numpy as np

from hologram import _core
from hologram._core import Buffer
from hologram._registry import FUNCTIONS

__all__ = ["Array", "Dim", "TraceError", "Tracer"]


class TraceError(TypeError):
    """A traced function asked for what tracing does not know or support."""


_NAMES = {"bool": "b8", "bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}
_NAMES |= {f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def name_of(dtype: Any) -> str:
    """The graph's name of a NumPy dtype."""
    dtype = np.dtype(dtype)
    if dtype.name not in _NAMES:
        raise TraceError(f"hologram.jit: dtype {dtype} is not supported")
    return _NAMES[dtype.name]


class Dim:
    """A size that is open while tracing. Comparing it or using it as an int makes the graph hold for such sizes only."""

    __slots__ = ("expr", "tracer")

    def __init__(self, tracer: "Tracer", expr: Any) -> None:
        self.tracer, self.expr = tracer, expr

    def _make(self, expr: Any) -> Any:
        return self.tracer.dim(expr)

    def __add__(self, other: Any) -> Any:
        return self._make(self.expr + _expr(other)) if _is_size(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._make(self.expr - _expr(other)) if _is_size(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return self._make(-self.expr + _expr(other)) if _is_size(other) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        return self._make(self.expr * _expr(other)) if _is_size(other) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._make(_core.floor_div(self.expr, _expr(other))) if _is_size(other) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return self._make(_core.mod(self.expr, _expr(other))) if _is_size(other) else NotImplemented

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

    def __init__(self) -> None:
        self.graph = _core.Graph()
        self.patterns: list[Any] = []  # per argument, for ArrayCall
        self.hints: list[int] = []  # value per symbol
        self.guards: dict[Any, Any] = {}  # expressions that must not be negative
        self.constants: list[Any] = []  # arrays that the function refers to
        self._symbols: dict[int, Any] = {}
        self._captured: dict[int, Array] = {}
        self._parameters = 0

    # --- arguments and results
    def argument(self, leaf: Any) -> Any:
        """The stand-in for one argument, itself for values that are part of the program."""
        if type(leaf) is float:
            self.patterns.append(("number",))
            return Array(self, self._parameter("f64", []), weak=True)
        if isinstance(leaf, Buffer):
            return self._array(np.dtype(leaf.dtype), (leaf.size,))
        if isinstance(leaf, np.ndarray):
            return self._array(leaf.dtype, leaf.shape)
        self.patterns.append(("fixed", leaf))
        return leaf

    def _array(self, dtype: Any, shape: tuple[int, ...], fixed: bool = False) -> "Array":
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
        self.patterns.append(("array", np.dtype(dtype), dims))
        return Array(self, self._parameter(name_of(dtype), sizes))

    def _parameter(self, dtype: str, shape: list[Any]) -> Any:
        index = self._parameters
        self._parameters += 1
        return self.graph.parameter(index, dtype, shape, strides(shape))

    def output(self, array: "Array") -> Any:
        """Makes a value a result; (dtype, shape) for ArrayCall."""
        shape = array.value.shape
        self.graph.output(array.value, strides(shape))
        return (array.value.dtype, tuple(shape))

    def constant(self, array: Any) -> "Array":
        """An array of the program: a further argument of the graph."""
        if array.ndim == 0:
            return Array(self, self.number(array.dtype, array.item()))
        known = self._captured.get(id(array))
        if known is None:
            known = self._captured[id(array)] = self._array(array.dtype, array.shape, fixed=True)
            self.constants.append(array)
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
        if all(_core.provably_equal(n, m) for n, m in zip(node.shape, sizes)):
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


def strides(shape: Any) -> list[Any]:
    """Row-major element strides; a size of 0 counts as 1."""
    out: list[Any] = []
    step: Any = 1
    for n in reversed(list(shape)):
        out.append(step)
        step = step * (n if not isinstance(n, int) or n > 0 else 1)
    return out[::-1]


def product(sizes: Any) -> Any:
    out: Any = 1
    for n in sizes:
        out = n * out
    return out


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """An array whose values are not known yet. Operators, ufuncs and NumPy functions on it record what they do."""

    __slots__ = ("python", "tracer", "value", "weak")

    def __init__(self, tracer: Tracer, value: Any, weak: bool = False, python: Any = None) -> None:
        self.tracer, self.value, self.weak, self.python = tracer, value, weak, python

    @property
    def dtype(self) -> Any:
        return _core.numpy_dtype(self.value.dtype)

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.tracer.dim(n) for n in self.value.shape)

    @property
    def ndim(self) -> int:
        return len(self.value.shape)

    @property
    def size(self) -> Any:
        return self.tracer.dim(product(self.value.shape))

    @property
    def T(self) -> "Array":
        return self.transpose()

    def make(self, value: Any) -> "Array":
        return Array(self.tracer, value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return FUNCTIONS[np.ufunc](self.tracer, ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in FUNCTIONS:
            raise TraceError(f"hologram.jit: numpy.{function.__name__} is not supported")
        return FUNCTIONS[function](*args, **kwargs)

    def _unknown(self, *_: Any) -> Any:
        raise TraceError(
            "hologram.jit: the function needs the value of an array, which is not known while it is traced; "
            "use numpy.where for choices"
        )

    __bool__ = __int__ = __float__ = __index__ = __complex__ = item = tolist = _unknown

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self._unknown()

    def __len__(self) -> int:
        if not self.value.shape:
            raise TypeError("len() of an array without dimensions")
        return int(self.shape[0])

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TraceError("hologram.jit: arrays cannot be changed in a traced function; make new ones")

    def __getitem__(self, key: Any) -> "Array":
        return FUNCTIONS[operator.getitem](self, key)

    def astype(self, dtype: Any, **_: Any) -> "Array":
        return self.make(self.tracer.cast(self, dtype))

    def copy(self, *_: Any) -> "Array":
        return self

    def transpose(self, *axes: Any) -> "Array":
        if not axes or axes[0] is None:
            axes = tuple(reversed(range(self.ndim)))
        elif isinstance(axes[0], (tuple, list)):
            axes = tuple(axes[0])
        return self.make(self.tracer.graph.permute(self.value, [a % self.ndim for a in axes]))

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

    def ravel(self, *_: Any) -> "Array":
        return self.make(self.tracer.graph.reshape(self.value, [product(self.value.shape)]))

    flatten = ravel

    def squeeze(self, axis: Any = None) -> "Array":
        return np.squeeze(self, axis)

    def swapaxes(self, a: int, b: int) -> "Array":
        axes = list(range(self.ndim))
        axes[a], axes[b] = axes[b], axes[a]
        return self.transpose(axes)

    def dot(self, other: Any) -> Any:
        return np.dot(self, other)

    def __repr__(self) -> str:
        return f"<traced {self.value.dtype}{list(self.value.shape)}>"


def _method(name: str) -> Callable[..., Any]:
    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return getattr(np, name)(self, *args, **kwargs)

    method.__name__ = name
    return method


for _name in "sum prod max min mean var std argmax argmin any all clip cumsum cumprod round".split():
    setattr(Array, _name, _method(_name))
