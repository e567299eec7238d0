# hologram/numpy_functions.py: NumPy's ufuncs and functions as graph operations
# mypy: disable-error-code="no-any-return,return-value"
"""What `hologram.jit` understands: the tables UFUNCS and FUNCTIONS."""

import math
from typing import Any, Callable, Optional

import numpy as np

from hologram import _core
from hologram.trace import Array, Dim, TraceError, Tracer, name_of, product

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
FLOATS = ("f16", "bf16", "f32", "f64")

# --- ufuncs: name -> what gives the result's node from operands of the loop's dtype

_DIRECT = dict(
    add="add", subtract="sub", multiply="mul", minimum="min", maximum="max", fmin="minnum", fmax="maxnum",
    copysign="copysign", nextafter="nextafter", arctan2="atan2", fmod="rem", bitwise_and="bit_and", bitwise_or="bit_or",
    bitwise_xor="bit_xor", left_shift="shl", right_shift="shr", equal="eq", not_equal="ne", less="lt", less_equal="le",
    negative="neg", absolute="abs", fabs="abs", floor="floor", ceil="ceil", trunc="trunc", rint="round", sqrt="sqrt",
    cbrt="cbrt", exp="exp", exp2="exp2", expm1="expm1", log="log", log2="log2", log10="log10", log1p="log1p", sin="sin",
    cos="cos", tan="tan", arcsin="asin", arccos="acos", arctan="atan", sinh="sinh", cosh="cosh", tanh="tanh",
    arcsinh="asinh", arccosh="acosh", arctanh="atanh", invert="bit_not", true_divide="div", divide="div",
)  # fmt: skip


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

UFUNCS = sorted({*_DIRECT, *_COMPOSED, *_LOGICAL, "matmul"})


def _loop_dtypes(ufunc: Any, arrays: list[Array], dtype: Any) -> Any:
    given = []
    for a in arrays:
        given.append((float if a.value.dtype in FLOATS else int) if a.weak else a.dtype)
    if all(isinstance(t, type) for t in given):  # Python numbers alone
        given = [a.dtype for a in arrays]
    options = {} if dtype is None else {"signature": (*([None] * len(given)), np.dtype(dtype))}
    try:
        return ufunc.resolve_dtypes((*given, *([None] * ufunc.nout)), **options)
    except AttributeError as error:  # NumPy before 1.25
        raise TraceError("hologram.jit needs NumPy 1.25 or newer") from error


def call_ufunc(tracer: Tracer, ufunc: Any, method: str, inputs: Any, options: dict[str, Any]) -> Any:
    """What `__array_ufunc__` does for traced arrays."""
    name = ufunc.__name__
    if method == "reduce" and name in _REDUCTIONS:
        return FUNCTIONS[getattr(np, _REDUCTIONS[name])](*inputs, **options)
    dtype = options.pop("dtype", None)
    if method != "__call__" or any(v is not None and v is not True for v in options.values()):
        raise TraceError(f"hologram.jit: numpy.{name}.{method} with {sorted(options)} is not supported")
    arrays = []
    for x in inputs:
        a = tracer.lift(x)
        if a is None:
            return NotImplemented
        arrays.append(a)
    if name == "matmul":
        return matmul(*arrays)
    c = Loop(tracer)
    if name in _LOGICAL:
        return Array(tracer, c(_LOGICAL[name], *[tracer.cast(a, np.bool_) for a in arrays]))
    if name == "power" and arrays[1].python is not None and _is_whole(arrays[1].python):
        return _whole_power(tracer, arrays[0], int(arrays[1].python), c)
    if name not in _DIRECT and name not in _COMPOSED:
        raise TraceError(f"hologram.jit: numpy.{name} is not supported")
    types = _loop_dtypes(ufunc, arrays, dtype)
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


# --- shapes


def check_broadcast(tracer: Tracer, shapes: list[Any]) -> None:
    """ValueError for shapes that do not go together, as NumPy's."""
    hints = [tuple(tracer_hint(tracer, n) for n in shape) for shape in shapes]
    np.broadcast_shapes(*hints)


def tracer_hint(tracer: Tracer, n: Any) -> int:
    return n if isinstance(n, int) else n.evaluate(tracer.hints)


def match(tracer: Tracer, nodes: list[Any]) -> list[Any]:
    """The nodes with sizes that are equal in this call made provably so."""
    shape = broadcast_shape(tracer, *[n.shape for n in nodes])
    return [n if all(isinstance(d, int) and d == 1 for d in n.shape) else _aligned(tracer, n, shape) for n in nodes]


def _aligned(tracer: Tracer, node: Any, shape: list[Any]) -> Any:
    lead = len(shape) - len(node.shape)
    sizes = [n if isinstance(n, int) and n == 1 else shape[lead + i] for i, n in enumerate(node.shape)]
    return tracer.graph.broadcast(tracer.settle(node, sizes), shape)


def broadcast_shape(tracer: Tracer, *shapes: Any) -> list[Any]:
    rank = max(len(s) for s in shapes)
    out: list[Any] = []
    for i in range(rank):
        sizes = [s[i - rank + len(s)] for s in shapes if i - rank + len(s) >= 0]
        sizes = [n for n in sizes if not (isinstance(n, int) and n == 1)]
        if not sizes:
            out.append(1)
            continue
        for n in sizes[1:]:
            if tracer.dim(sizes[0]) != tracer.dim(n):
                raise ValueError(f"operands could not be broadcast together: {[tuple(map(str, s)) for s in shapes]}")
        out.append(next((n for n in sizes if isinstance(n, int)), sizes[0]))
    return out


def implements(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            target = getattr(np, name, None)
            if target is not None:
                FUNCTIONS[target] = function
        return function

    return register


def tracer_of(*values: Any) -> Tracer:
    for v in values:
        if isinstance(v, (Array, Dim)):
            return v.tracer
        if isinstance(v, (list, tuple)):
            for x in v:
                if isinstance(x, (Array, Dim)):
                    return x.tracer
    raise TraceError("hologram.jit: no traced array among the arguments")


def lifted(tracer: Tracer, value: Any) -> Array:
    a = tracer.lift(value)
    if a is None:
        raise TraceError(f"hologram.jit: {type(value).__name__} cannot stand in an expression")
    return a


def _axes(axis: Any, rank: int) -> list[int]:
    if axis is None:
        return list(range(rank))
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    for a in axes:
        if not -rank <= a < rank:
            raise np.exceptions.AxisError(a, rank)
    return sorted(a % rank for a in axes)


# --- reductions


def _reduce(a: Array, op: str, axis: Any, keepdims: Any, dtype: Any = None, out: Any = None) -> Array:
    if out is not None:
        raise TraceError("hologram.jit: out= inside a traced function is not supported")
    node = a.value if dtype is None else a.tracer.cast(a, dtype)
    axes = _axes(axis, len(node.shape))
    empty = a.tracer.dim(product(node.shape[i] for i in axes))
    if op in ("max", "min", "argmax", "argmin") and isinstance(empty, int) and empty == 0:
        raise ValueError(f"zero-size array to reduction operation {op} which has no identity")
    reduced = a.tracer.graph.reduce("reduce_" + op, node, axes) if axes else node
    if keepdims is True:
        reduced = a.tracer.graph.reshape(reduced, [1 if i in axes else n for i, n in enumerate(node.shape)])
    return a.make(reduced)


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
    return _reduce(among(a.astype(np.bool_), where, False), "max", axis, keepdims, np.bool_, out)


@implements("all")
def all_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Array:
    return _reduce(among(a.astype(np.bool_), where, True), "min", axis, keepdims, np.bool_, out)


@implements("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Array:
    return _reduce(a.astype(np.bool_), "sum", axis, keepdims, np.int64)


@implements("argmax")
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    return _reduce(a, "argmax", axis, keepdims, None, out)


@implements("argmin")
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    return _reduce(a, "argmin", axis, keepdims, None, out)


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
    return _mean(wide, _axes(axis, a.ndim), keepdims).astype(result)


@implements("var")
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True
) -> Array:
    wide, result = _float(a, dtype)
    axes = _axes(axis, a.ndim)
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
    batch = broadcast_shape(tracer, x.shape[:-2], y.shape[:-2]) if x.shape[:-2] or y.shape[:-2] else []
    inner = x.shape[-1] if isinstance(x.shape[-1], int) else y.shape[-2]
    x = tracer.settle(x, [*x.shape[:-1], inner])
    y = tracer.settle(y, [*y.shape[:-2], inner, y.shape[-1]])
    x = _aligned(tracer, x, [*batch, x.shape[-2], inner])
    y = _aligned(tracer, y, [*batch, inner, y.shape[-1]])
    if name_of(dtype) in FLOATS:
        node = graph.make("dot_general", [x, y], ints=[0])
    else:  # integers: the sum of products
        rank = len(batch)
        wide = [*batch, x.shape[-2], inner, y.shape[-1]]
        x = graph.expand(graph.reshape(x, [*batch, x.shape[-2], inner, 1]), wide)
        y = graph.expand(graph.reshape(y, [*batch, 1, inner, y.shape[-1]]), wide)
        node = graph.reduce("reduce_max" if name_of(dtype) == "b8" else "reduce_sum", graph.elementwise("mul", [x, y]), [rank + 1])
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


@implements("inner", "vdot")
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
    dtype = _loop_dtypes(np.add, [a, b], None)[-1] if not a.value.dtype == b.value.dtype == "b8" else np.bool_
    nodes = match(tracer, [tracer.cast(c, np.bool_), tracer.cast(a, dtype), tracer.cast(b, dtype)])
    return Array(tracer, Loop(tracer).where(*nodes))


@implements("clip")
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:  # noqa: A002
    low, high = a_min if a_min is not None else min, a_max if a_max is not None else max
    result = a if low is None else np.maximum(a, low)
    return result if high is None else np.minimum(result, high)


@implements("round", "around")
def round_(a: Any, decimals: int = 0, out: Any = None) -> Any:
    if decimals == 0:
        return np.rint(a)
    scale = 10.0 ** abs(decimals)
    return np.rint(a * scale) / scale if decimals > 0 else np.rint(a / scale) * scale


@implements("zeros_like")
def zeros_like(a: Any, dtype: Any = None, **_: Any) -> Array:
    return full_like(a, 0, dtype)


@implements("ones_like")
def ones_like(a: Any, dtype: Any = None, **_: Any) -> Array:
    return full_like(a, 1, dtype)


@implements("full_like")
def full_like(a: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Array:
    value = lifted(a.tracer, fill_value)
    return a.make(a.tracer.graph.broadcast(a.tracer.cast(value, dtype or a.dtype), list(a.value.shape)))


@implements("take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Array:
    tracer = tracer_of(a, indices)
    a, at = lifted(tracer, a), lifted(tracer, indices)
    if axis is None:
        a, axis = a.ravel(), 0
    if at.value.dtype == "b8" or at.value.dtype in FLOATS:
        raise TraceError("hologram.jit: indices must be integers; a mask's result has a size that depends on values")
    return a.make(tracer.graph.make("take", [a.value, tracer.cast(at, np.int64)], ints=[axis % a.ndim]))


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
    return Array(tracer, _aligned(tracer, lifted(tracer, a).value, [_plain(n) for n in shape]))


def _plain(n: Any) -> Any:
    return n.expr if isinstance(n, Dim) else int(n)


@implements("concatenate", "concat")
def concatenate(arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, casting: Any = None) -> Array:
    tracer = tracer_of(arrays)
    values = [lifted(tracer, a) for a in arrays]
    if axis is None:
        values, axis = [v.ravel() for v in values], 0
    dtype = dtype or np.result_type(*[v.dtype for v in values])
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
    return m.make(m.tracer.graph.flip(m.value, _axes(axis, m.ndim)))


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
    return a


# --- indexing


def index(a: Array, key: Any) -> Any:
    """a[key] for integers, slices, None, Ellipsis, and one array of integers; a Selection for an array of bools."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if len(keys) == 1 and getattr(keys[0], "dtype", None) == np.bool_:
        from hologram._selection import Selection

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


def supported() -> Optional[list[str]]:
    """Names of the NumPy functions and ufuncs that a traced function may use."""
    return sorted({*UFUNCS, *(f.__name__ for f in FUNCTIONS)})
