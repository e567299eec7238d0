# hologram_torch/lowering/binary.py: arithmetic of two operands, comparisons, logic
from ..graph import dtypes
from ..graph.builder import Value
from . import Unsupported, lower
from .pointwise import compute


# In eager, these keep a Python number at full width beside half-precision tensors; others round it to the tensor's type.
_WIDE_NUMBERS = ("add", "sub", "mul", "div")


def arithmetic(c, op, *operands):
    out = c.out_dtype
    half = out in dtypes.HALVES and any(type(x) in (int, float) for x in operands)
    via = "f32" if half and op in _WIDE_NUMBERS else out
    return c.cast(c.ew(op, *[c.scalar(x, via) for x in operands]), out)


def _rounded(c, x, out):
    """An operand in the dtype that compositions on `out` are computed in, numbers rounded to `out` first."""
    return c.cast(c.scalar(x, out), dtypes.compute(out))


def _scaled(c, op, x, y, alpha):
    if alpha == 1:
        return arithmetic(c, op, x, y)
    out = c.out_dtype
    if out not in dtypes.FLOATS:
        return c.ew(op, c.scalar(x, out), c.mul(c.scalar(y, out), c.scalar(alpha, out)))
    via = dtypes.compute(out)
    return c.cast(c.ew(op, c.scalar(x, via), c.mul(c.scalar(y, via), c.scalar(alpha, via))), out)


@lower("add.Tensor", "add.Scalar")
def add(c, x, y, alpha=1):
    return _scaled(c, "add", x, y, alpha)


@lower("sub.Tensor", "sub.Scalar")
def sub(c, x, y, alpha=1):
    return _scaled(c, "sub", x, y, alpha)


@lower("rsub.Tensor", "rsub.Scalar")
def rsub(c, x, y, alpha=1):
    return _scaled(c, "sub", y, x, alpha) if alpha == 1 else _rsub(c, x, y, alpha)


def _rsub(c, x, y, alpha):
    out = c.out_dtype
    via = dtypes.compute(out)
    return c.cast(c.sub(c.scalar(y, via), c.mul(c.scalar(x, via), c.scalar(alpha, via))), out)


@lower("mul.Tensor", "mul.Scalar")
def mul(c, x, y):
    return arithmetic(c, "mul", x, y)


@lower("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(c, x, y):
    return arithmetic(c, "div", x, y)


def _floor_divide(c, x, y, name):
    """Rounds the quotient down, for floats through the exact remainder as Python does."""
    x, y, zero = c.scalar(x, name), c.scalar(y, name), c.number(name, 0)
    rest = c.ew("rem", x, y)
    opposed = c.both(c.ne(rest, zero), c.ne(c.lt(y, zero), c.lt(rest, zero)))
    if name not in dtypes.FLOATS:
        quotient = c.div(x, y)
        return quotient if name.startswith("u") else c.where(opposed, c.sub(quotient, 1), quotient)
    quotient = c.div(c.sub(x, rest), y)
    quotient = c.where(opposed, c.sub(quotient, 1), quotient)
    down = c.ew("floor", quotient)
    down = c.where(c.lt(c.number(name, 0.5), c.sub(quotient, down)), c.add(down, 1), down)
    plain = c.div(x, y)
    down = c.where(c.ne(quotient, zero), down, c.ew("copysign", c.broadcast(zero, plain.shape), plain))
    return c.where(c.eq(y, zero), plain, down)


@lower("floor_divide.default", "floor_divide.Scalar")
def floor_divide(c, x, y):
    out = c.out_dtype
    both = type(x) is Value and type(y) is Value  # halves round at each step, beside a number only at the end
    return c.cast(_floor_divide(c, x, y, out if both else dtypes.compute(out)), out)


@lower("div.Tensor_mode", "div.Scalar_mode")
def div_mode(c, x, y, *, rounding_mode=None):
    out = c.out_dtype
    if rounding_mode is None:
        return arithmetic(c, "div", x, y)
    if rounding_mode == "floor":
        return floor_divide(c, x, y)
    if out not in dtypes.FLOATS:
        return arithmetic(c, "div", x, y)
    both = type(x) is Value and type(y) is Value  # as in floor_divide
    via = out if both else dtypes.compute(out)
    return c.cast(c.ew("trunc", c.div(c.scalar(x, via), c.scalar(y, via))), out)


@lower("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(c, x, y):
    out = c.out_dtype
    via = dtypes.compute(out)
    x, y = _rounded(c, x, out), _rounded(c, y, out)
    rest = c.ew("rem", x, y)
    if via.startswith("u"):
        return rest
    zero = c.number(via, 0)
    opposed = c.both(c.ne(rest, zero), c.ne(c.lt(y, zero), c.lt(rest, zero)))
    return c.cast(c.where(opposed, c.add(rest, y), rest), out)


@lower("fmod.Tensor", "fmod.Scalar")
def fmod(c, x, y):
    return arithmetic(c, "rem", x, y)


def _binary(op):
    def lowering(c, x, y):
        return arithmetic(c, op, x, y)

    return lowering


for _name, _op in {
    "maximum.default": "max",
    "minimum.default": "min",
    "fmax.default": "maxnum",
    "fmin.default": "minnum",
    "atan2.default": "atan2",
    "copysign.Tensor": "copysign",
    "copysign.Scalar": "copysign",
    "nextafter.default": "nextafter",
}.items():
    lower(_name)(_binary(_op))


# --- powers
def _integer_power(c, x, n):
    out = None
    while n:
        if n & 1:
            out = x if out is None else c.mul(out, x)
        n >>= 1
        if n:
            x = c.mul(x, x)
    return out


@lower("pow.Tensor_Scalar")
def pow_scalar(c, x, exponent):
    out = c.out_dtype
    x = c.cast(x, out)
    if type(exponent) not in (bool, int, float):
        raise Unsupported("symbolic exponent")
    if exponent == 0:
        return c.number(out, 1, x.shape)
    if out not in dtypes.FLOATS:
        if out == "b8" or int(exponent) != exponent or not 0 < exponent <= 64:
            raise Unsupported("integer power")
        return _integer_power(c, x, int(exponent))
    special = {
        1: lambda x: x,
        2: lambda x: c.mul(x, x),
        3: lambda x: c.mul(c.mul(x, x), x),
        0.5: lambda x: c.ew("sqrt", x),
        -0.5: lambda x: c.ew("rsqrt", x),
        -1: lambda x: c.div(c.number(x.dtype, 1), x),
        -2: lambda x: c.div(c.number(x.dtype, 1), c.mul(x, x)),
    }.get(exponent)
    if special is None:
        return c.ew("pow", x, float(exponent))
    return compute(c, special, x) if out == "f16" else special(x)


@lower("pow.Tensor_Tensor", "pow.Scalar")
def pow_tensor(c, x, y):
    out = c.out_dtype
    if out not in dtypes.FLOATS:
        raise Unsupported("integer power")
    return c.ew("pow", c.scalar(x, out), c.scalar(y, out))


# --- bits and logic
def _bits(op):
    def lowering(c, x, y):
        return arithmetic(c, op, x, y)

    return lowering


for _name in ("and", "or", "xor"):
    for _kind in ("Tensor", "Scalar", "Scalar_Tensor"):
        lower(f"bitwise_{_name}.{_kind}")(_bits(f"bit_{_name}"))


def _logical(op):
    def lowering(c, x, y):
        return c.ew(op, c.cast(x, "b8"), c.cast(y, "b8"))

    return lowering


for _name in ("and", "or", "xor"):
    lower(f"logical_{_name}.default")(_logical(f"bit_{_name}"))


@lower("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Scalar", "__lshift__.Tensor",
       "bitwise_left_shift.Scalar_Tensor")  # fmt: skip
def left_shift(c, x, y):
    if c.out_dtype in dtypes.FLOATS:
        raise Unsupported("shift of floats")
    return arithmetic(c, "shl", x, y)


@lower("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Scalar", "__rshift__.Tensor",
       "bitwise_right_shift.Scalar_Tensor")  # fmt: skip
def right_shift(c, x, y):
    if c.out_dtype in dtypes.FLOATS:
        raise Unsupported("shift of floats")
    return arithmetic(c, "shr", x, y)


# --- comparisons
def _fits(x, name) -> bool:
    if type(x) is float and name not in dtypes.FLOATS or name == "b8":
        return False
    return type(x) is not int or name in dtypes.FLOATS or dtypes.INT_RANGE[name][0] <= x <= dtypes.INT_RANGE[name][1]


def _compare(op, swap):
    def lowering(c, x, y):
        name = c.result_dtype(x, y)
        for v in (x, y):
            if type(v) is not Value and type(v) is not bool and not _fits(v, name):
                raise Unsupported("number outside the tensor's dtype")
        x, y = c.scalar(x, name), c.scalar(y, name)
        return c.ew(op, y, x) if swap else c.ew(op, x, y)

    return lowering


for _name, _op, _swap in (("eq", "eq", 0), ("ne", "ne", 0), ("lt", "lt", 0), ("le", "le", 0), ("gt", "lt", 1), ("ge", "le", 1)):
    for _kind in ("Tensor", "Scalar"):
        lower(f"{_name}.{_kind}")(_compare(_op, _swap))


# --- choices
@lower("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(c, condition, x, y):
    out = c.out_dtype
    return c.where(c.cast(condition, "b8"), c.scalar(x, out), c.scalar(y, out))


@lower("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(c, x, mask, value):
    return c.broadcast(c.where(mask, c.scalar(value, x.dtype), x), c.out_shape)


@lower("lerp.Scalar", "lerp.Tensor")
def lerp(c, x, y, weight):
    """As ATen: from the nearer end, so that both ends are met exactly."""

    def form(x, y, w):
        step = c.sub(y, x)
        near = c.add(x, c.mul(w, step))
        far = c.sub(y, c.mul(step, c.sub(c.number(w.dtype, 1), w)))
        return c.where(c.lt(c.ew("abs", w), 0.5), near, far)

    via = dtypes.compute(c.out_dtype)
    return c.cast(form(c.cast(x, via), c.cast(y, via), c.scalar(weight, via)), c.out_dtype)


@lower("addcmul.default")
def addcmul(c, x, a, b, *, value=1):
    if c.out_dtype not in dtypes.FLOATS:
        raise Unsupported("integers")
    return compute(c, lambda x, a, b: c.add(x, c.mul(c.mul(a, value), b)), x, a, b)


@lower("addcdiv.default")
def addcdiv(c, x, a, b, *, value=1):
    return compute(c, lambda x, a, b: c.add(x, c.div(c.mul(a, value), b)), x, a, b)


@lower("prims.fma.default")
def fma(c, x, y, z):
    out = c.out_dtype
    return c.ew("fma", *(c.scalar(v, out) for v in (x, y, z)))
