# hologram/_ufuncs.py: NumPy's ufuncs as graph operations
# mypy: disable-error-code="no-any-return,return-value"
"""The table UFUNCS and what `__array_ufunc__` does."""

import functools
import math
from typing import Any, Callable

import numpy as np

from hologram import _core
from hologram._op_table import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from hologram._operands import broadcast_shape, check_broadcast, lifted, match
from hologram._registry import FLOATS, FUNCTIONS
from hologram.trace import Array, TraceError, Tracer, name_of


# --- ufuncs: name -> what gives the result's node from operands of the loop's dtype

_DIRECT = dict(
    add="add", subtract="sub", multiply="mul", minimum="min", maximum="max", fmin="minnum", fmax="maxnum",
    copysign="copysign", nextafter="nextafter", fmod="rem", bitwise_and="bit_and", bitwise_or="bit_or",
    bitwise_xor="bit_xor", left_shift="shl", right_shift="shr", equal="eq", not_equal="ne", less="lt", less_equal="le",
    negative="neg", absolute="abs", fabs="abs", floor="floor", ceil="ceil", trunc="trunc", rint="round", sqrt="sqrt",
    invert="bit_not", true_divide="div", divide="div",
)  # fmt: skip


def _of_numpy(op: str) -> Any:
    """NumPy's function of the same meaning (asin is arcsin before NumPy 2), or None."""
    return getattr(np, op, None) or getattr(np, "arc" + op[1:], None)


_DIRECT |= {
    _of_numpy(op).__name__: op
    for op in (*UNARY_FUNCTIONS, *BINARY_FUNCTIONS)
    if op != "pow" and isinstance(_of_numpy(op), np.ufunc)
}


class Loop:
    """Short names for writing compositions; operands are nodes of one dtype."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def __call__(self, op: str, *operands: Any) -> Any:
        dtype = next(x.dtype for x in operands if isinstance(x, _core.Value))
        nodes = [x if isinstance(x, _core.Value) else self.tracer.graph.number(dtype, x) for x in operands]
        return self.tracer.graph.elementwise(op, nodes)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        dtype = next(v.dtype for v in (x, y) if isinstance(v, _core.Value))
        x, y = (v if isinstance(v, _core.Value) else self.tracer.graph.number(dtype, v) for v in (x, y))
        shape = broadcast_shape(self.tracer, condition.shape, x.shape, y.shape)
        nodes = [self.tracer.graph.broadcast(v, shape) for v in (condition, x, y)]
        return self.tracer.graph.make("select", nodes)


def _floored(c: Loop, a: Any, b: Any) -> tuple[Any, Any]:
    """(rem, whether it has the other sign than b)."""
    rem = c("rem", a, b)
    return rem, c("bit_and", c("ne", rem, 0), c("ne", c("lt", rem, 0), c("lt", b, 0)))


def _remainder(c: Loop, a: Any, b: Any) -> Any:
    rem, turn = _floored(c, a, b)
    out = c.where(turn, c("add", rem, b), rem)
    return c.where(c("eq", rem, 0), c("copysign", c("mul", rem, 0), b), out) if a.dtype in FLOATS else out


def _floor_divide(c: Loop, a: Any, b: Any) -> Any:
    rem, turn = _floored(c, a, b)
    if a.dtype not in FLOATS:
        quotient = c("div", a, b)
        return c.where(turn, c("sub", quotient, 1), quotient)
    exact = c("div", c("sub", a, rem), b)
    exact = c.where(turn, c("sub", exact, 1), exact)
    whole = c("floor", exact)
    whole = c.where(c("lt", 0.5, c("sub", exact, whole)), c("add", whole, 1), whole)
    return c.where(c("eq", b, 0), c("div", a, b), whole)


def _power(c: Loop, a: Any, b: Any) -> Any:
    if a.dtype in FLOATS:
        return c("pow", a, b)
    raise TraceError("hologram.jit: integer powers need a constant exponent from 0 to 64")


def _sign(c: Loop, a: Any) -> Any:
    return c.where(c("ne", a, a), a, c("sign", a)) if a.dtype in FLOATS else c("sign", a)


def _logaddexp(c: Loop, a: Any, b: Any) -> Any:
    top = c("max", a, b)
    return c.where(c("eq", a, b), c("add", a, math.log(2)), c("add", top, c("log1p", c("exp", c("neg", c("abs", c("sub", a, b)))))))


def _hypot(c: Loop, a: Any, b: Any) -> Any:
    a, b = c("abs", a), c("abs", b)
    big, small = c("max", a, b), c("min", a, b)
    ratio = c.where(c("eq", small, 0), small, c("div", small, big))
    out = c("mul", big, c("sqrt", c("add", c("mul", ratio, ratio), 1)))
    return c.where(c("bit_or", c("eq", a, math.inf), c("eq", b, math.inf)), math.inf, out)


_COMPOSED: dict[str, Callable[..., Any]] = dict(
    greater=lambda c, a, b: c("lt", b, a),
    greater_equal=lambda c, a, b: c("le", b, a),
    remainder=_remainder,
    floor_divide=_floor_divide,
    power=_power,
    float_power=_power,
    sign=_sign,
    logaddexp=_logaddexp,
    hypot=_hypot,
    heaviside=lambda c, a, b: c.where(c("lt", a, 0), 0, c.where(c("lt", 0, a), 1, c.where(c("eq", a, 0), b, a))),
    square=lambda c, a: c("mul", a, a),
    reciprocal=lambda c, a: c("div", c("add", c("mul", a, 0), 1), a) if a.dtype not in FLOATS else c("div", 1, a),
    positive=lambda c, a: a,
    conjugate=lambda c, a: a,
    isnan=lambda c, a: c("ne", a, a),
    isinf=lambda c, a: c("eq", c("abs", a), math.inf),
    isfinite=lambda c, a: c("lt", c("abs", a), math.inf),
    signbit=lambda c, a: c("lt", c("copysign", 1, a), 0),
    deg2rad=lambda c, a: c("mul", a, math.pi / 180),
    radians=lambda c, a: c("mul", a, math.pi / 180),
    rad2deg=lambda c, a: c("mul", a, 180 / math.pi),
    degrees=lambda c, a: c("mul", a, 180 / math.pi),
)
_LOGICAL = dict(logical_and="bit_and", logical_or="bit_or", logical_xor="bit_xor", logical_not="bit_not")
_REDUCTIONS = dict(add="sum", multiply="prod", maximum="max", minimum="min", logical_or="any", logical_and="all")

_SCANS = dict(maximum="cummax", minimum="cummin", add="cumsum", multiply="cumprod")

UFUNCS = sorted({*_DIRECT, *_COMPOSED, *_LOGICAL, "matmul"})


def _adopt(given: Any, others: list[Any]) -> Any:
    """The dtype that a Python number takes beside arrays (NumPy 2's rule, with every NumPy; its own knows no bfloat16 before 2)."""
    if not isinstance(given, type):
        return given
    strong = np.result_type(*others)
    if given is int:
        return strong if strong.kind != "b" else np.dtype(np.int64)
    return strong if strong.kind not in "bui" else np.dtype(np.float64)


def loop_dtypes(ufunc: Any, arrays: list[Array], dtype: Any) -> Any:
    given = []
    for a in arrays:
        given.append((float if a.value.dtype in FLOATS else int) if a.weak else a.dtype)
    if all(isinstance(t, type) for t in given):  # Python numbers alone
        given = [a.dtype for a in arrays]
    given = [_adopt(t, [s for s in given if not isinstance(s, type)]) for t in given]
    options = {} if dtype is None else {"signature": (*([None] * len(given)), np.dtype(dtype))}
    try:
        return ufunc.resolve_dtypes((*given, *([None] * ufunc.nout)), **options)
    except AttributeError as error:  # NumPy before 1.25
        raise TraceError("hologram.jit needs NumPy 1.25 or newer") from error


def call_ufunc(tracer: Tracer, ufunc: Any, method: str, inputs: Any, options: dict[str, Any]) -> Any:
    """What `__array_ufunc__` does for traced arrays."""
    name = ufunc.__name__
    if method == "reduce" and name in _REDUCTIONS:
        if len(inputs) == 1:
            options = {"axis": 0, **options}  # of numpy.sum it is None
        return FUNCTIONS[getattr(np, _REDUCTIONS[name])](*inputs, **options)
    if method == "accumulate" and name in _SCANS and not options.keys() - {"axis"}:
        return _accumulate(tracer, name, *inputs, **options)
    if method == "outer" and not options:
        a, b = (Array(tracer, lifted(tracer, x).value) for x in inputs)  # numbers are arrays here, with a dtype of their own
        return ufunc(a[(..., *[None] * b.ndim)], b)
    dtype = options.pop("dtype", None)
    if method != "__call__" or any(v is not None and v is not True for v in options.values()):
        raise TraceError(f"hologram.jit: numpy.{name}.{method} with {sorted(options)} is not supported")
    arrays = []
    for x in inputs:
        operand = tracer.lift(x)
        if operand is None:
            return NotImplemented
        arrays.append(operand)
    if name == "matmul":
        return FUNCTIONS[np.matmul](*arrays)
    c = Loop(tracer)
    if name in _LOGICAL:
        return Array(tracer, c(_LOGICAL[name], *[tracer.cast(a, np.bool_) for a in arrays]))
    if name == "power" and arrays[1].python is not None and _is_whole(arrays[1].python):
        return _whole_power(tracer, arrays[0], int(arrays[1].python), c)
    if name == "power" and arrays[1].python in (0.5, -1.0) and arrays[0].value.dtype in FLOATS:  # as NumPy does
        return np.sqrt(arrays[0]) if arrays[1].python == 0.5 else np.reciprocal(arrays[0])
    if name == "power" and arrays[1].python in _ROOTED and arrays[0].value.dtype in ("f32", "f64"):
        return _rooted_power(arrays[0], arrays[1].python)
    if name not in _DIRECT and name not in _COMPOSED:
        raise TraceError(f"hologram.jit: numpy.{name} is not supported")
    types = loop_dtypes(ufunc, arrays, dtype)
    beyond = [_beyond(a, t) for a, t in zip(arrays, types)]
    if any(beyond):
        return _compared_beyond(tracer, c, name, arrays, types, beyond)
    nodes = [tracer.cast(a, t) for a, t in zip(arrays, types)]
    if name in ("absolute", "fabs", "floor", "ceil", "trunc", "rint") and nodes[0].dtype not in FLOATS:
        if name != "absolute" or nodes[0].dtype == "b8":
            return Array(tracer, nodes[0])
    if name in ("isnan", "isinf", "isfinite") and nodes[0].dtype not in FLOATS:
        return Array(tracer, c("eq", nodes[0], nodes[0]) if name == "isfinite" else c("ne", nodes[0], nodes[0]))
    check_broadcast(tracer, [n.shape for n in nodes])
    nodes = match(tracer, nodes)
    if name in _COMPARISONS and nodes[0].dtype != nodes[1].dtype:
        return Array(tracer, _compare_exactly(tracer, c, name, nodes))
    out = c(_DIRECT[name], *nodes) if name in _DIRECT else _COMPOSED[name](c, *nodes)
    result = Array(tracer, out)
    result.weak = all(a.weak for a in arrays)
    return result.astype(types[-1]) if name_of(types[-1]) != out.dtype else result


def _accumulate(tracer: Tracer, name: str, a: Any, axis: int = 0) -> Any:
    a = tracer.lift(a)
    if not a.ndim or a.value.dtype == "b8":
        raise TraceError(f"hologram.jit: numpy.{name}.accumulate of these arguments is not supported")
    if name in ("add", "multiply"):
        return FUNCTIONS[np.cumsum if name == "add" else np.cumprod](a, axis)
    if not -a.ndim <= axis < a.ndim:
        raise np.exceptions.AxisError(axis, a.ndim)
    return Array(tracer, tracer.graph.make(_SCANS[name], [a.value], ints=[axis % a.ndim]))


def call_function(op: str, x: Any) -> Array:
    """A function of one float of the table of operations, element by element; integers become float64."""
    if not isinstance(x, Array):
        raise TraceError(f"hologram.jit: {op} expected an array, got {type(x).__name__}")
    if x.value.dtype not in FLOATS:
        x = x.astype("float64")
    return x.make(x.tracer.graph.elementwise(op, [x.value]))


FUNCTIONS[np.ufunc] = call_ufunc
for _op in UNARY_FUNCTIONS:
    if _of_numpy(_op) is not None and not isinstance(_of_numpy(_op), np.ufunc):
        FUNCTIONS[_of_numpy(_op)] = functools.partial(call_function, _op)
_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def _compare_exactly(tracer: Tracer, c: Loop, name: str, nodes: list[Any]) -> Any:
    """A signed with an unsigned integer of 64 bits: NumPy has loops for the two that lose nothing."""
    if name.startswith("greater"):
        name, nodes = name.replace("greater", "less"), nodes[::-1]
    signed = 0 if nodes[0].dtype == "i64" else 1
    negative = c("lt", nodes[signed], 0)
    nodes = [tracer.cast(Array(tracer, n), np.uint64) if i == signed else n for i, n in enumerate(nodes)]
    same = c(_DIRECT[name], *nodes)
    if name == "not_equal" or (name.startswith("less") and signed == 0):
        return c("bit_or", negative, same)
    return c("bit_and", c("bit_not", negative), same)


def _beyond(a: Array, dtype: Any) -> int:
    """1 for a number of Python's above all of an integer dtype, -1 for one below, else 0."""
    if type(a.python) is not int or np.dtype(dtype).kind not in "iu":
        return 0
    limits = np.iinfo(dtype)
    return (a.python > limits.max) - (a.python < limits.min)


def _compared_beyond(tracer: Tracer, c: Loop, name: str, arrays: list[Array], types: Any, beyond: list[int]) -> Array:
    """A comparison whose outcome is known; other operations are NumPy's error."""
    number = next(i for i, way in enumerate(beyond) if way)
    if name not in _COMPARISONS or all(beyond):
        raise OverflowError(f"Python integer {arrays[number].python} out of bounds for {np.dtype(types[number])}")
    less = beyond[number] > 0 if number == 1 else beyond[number] < 0
    true = name == "not_equal" or (less if name.startswith("less") else not less and name.startswith("greater"))
    node = tracer.cast(arrays[1 - number], types[1 - number])
    return Array(tracer, c("eq" if true else "ne", node, node))


_ROOTED = (1.5, -1.5, -3)


def _rooted_power(x: Array, exponent: Any) -> Any:
    """By products, roots and divisions, to 3 ulp: behind the sum of a short row a power takes 40 ns an element, these 3."""
    if exponent == -3:
        inverse = np.reciprocal(x)
        return inverse * inverse * inverse
    power = x * np.sqrt(x) if exponent > 0 else np.reciprocal(x) * np.reciprocal(np.sqrt(x))
    return np.where(np.equal(x, -np.inf), np.inf if exponent > 0 else 0.0, power)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= 64


def _whole_power(tracer: Tracer, base: Array, exponent: int, c: Loop) -> Array:
    node = base.value if base.value.dtype != "b8" else tracer.cast(base, np.int8)
    if node.dtype in FLOATS and exponent > 3:
        return Array(tracer, c("pow", node, float(exponent)))
    out = None
    while exponent:
        if exponent & 1:
            out = node if out is None else c("mul", out, node)
        exponent >>= 1
        node = c("mul", node, node) if exponent else node
    if out is None:
        out = tracer.graph.broadcast(tracer.number(_core.numpy_dtype(node.dtype), 1), list(node.shape))
    result = Array(tracer, out)
    result.weak = base.weak
    return result
