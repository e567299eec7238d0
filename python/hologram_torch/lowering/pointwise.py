# hologram_torch/lowering/pointwise.py: unary operators, activations, conversions
import math

from hologram._op_table import UNARY_FUNCTIONS

from ..graph import dtypes
from . import Unsupported, lower

LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}


def compute(c, function, *xs):
    """Evaluates a composition with one rounding: halves widen to f32 before and narrow to the result's dtype after."""
    out = c.out_dtype
    wide = dtypes.compute(out)
    return c.cast(function(*[c.cast(x, wide) for x in xs]), out)


def _unary(op):
    def lowering(c, x, **_):
        return c.ew(op, c.cast(x, c.out_dtype))

    return lowering


for _name in (*UNARY_FUNCTIONS, "sqrt", "neg"):  # what PyTorch means otherwise is lowered below
    lower(f"{_name}.default", f"special_{_name}.default")(_unary(_name))


def _rounding(op):
    def lowering(c, x):
        return c.ew(op, x) if x.dtype in dtypes.FLOATS else x

    return lowering


for _name in ("floor", "ceil", "trunc", "round"):
    lower(f"{_name}.default")(_rounding(_name))


@lower("round.decimals")
def round_decimals(c, x, *, decimals=0):
    if x.dtype not in dtypes.FLOATS:
        raise Unsupported("decimals of integers")
    if decimals == 0:
        return c.ew("round", x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return compute(c, lambda x: c.div(c.ew("round", c.mul(x, scale)), scale), x)
    return compute(c, lambda x: c.mul(c.ew("round", c.div(x, scale)), scale), x)


@lower("abs.default")
def abs_(c, x):
    return x if x.dtype == "b8" else c.ew("abs", x)


@lower("sign.default", "sgn.default")
def sign(c, x):
    return x if x.dtype == "b8" else c.ew("sign", x)


@lower("positive.default", "lift_fresh_copy.default", "lift_fresh.default", "lift.default", "alias.default",
       "detach.default", "clone.default", "contiguous.default", "alias_copy.default", "resolve_conj.default",
       "resolve_neg.default", "conj_physical.default", "real.default", "detach_copy.default", "conj.default",
       "prims.view_of.default", "_conj.default", "_conj_physical.default")  # fmt: skip
def same(c, x, **_):
    return x


@lower("bitwise_not.default")
def bitwise_not(c, x):
    return c.no(x)


@lower("logical_not.default")
def logical_not(c, x):
    return c.no(c.cast(x, "b8"))


@lower("angle.default")
def angle(c, x):
    """Of a real number: 0, or pi below zero; NaN stays."""
    out = c.out_dtype
    turned = c.where(c.lt(x, 0), c.number(out, math.pi), c.number(out, 0))
    return c.where(c.ne(x, x), c.cast(x, out), turned) if x.dtype in dtypes.FLOATS else turned


@lower("hypot.default", "prims.hypot.default")
def hypot(c, x, y):
    """sqrt(x² + y²) without overflow on the way; infinity wins over NaN."""
    out = c.out_dtype
    x, y = (c.ew("abs", c.cast(v, "f64")) for v in (x, y))
    if out == "f64":
        large, small = c.ew("maxnum", x, y), c.ew("minnum", x, y)
        ratio = c.div(small, c.where(c.eq(large, 0), 1.0, large))
        root = c.mul(large, c.ew("sqrt", c.add(c.mul(ratio, ratio), 1.0)))
        root = c.where(c.either(c.ne(x, x), c.ne(y, y)), math.nan, root)
    else:
        root = c.ew("sqrt", c.add(c.mul(x, x), c.mul(y, y)))
    return c.cast(c.where(c.either(c.eq(x, math.inf), c.eq(y, math.inf)), math.inf, root), out)


@lower("reciprocal.default")
def reciprocal(c, x):
    return c.div(c.number(c.out_dtype, 1), c.cast(x, c.out_dtype))


@lower("square.default")
def square(c, x):
    return c.mul(x, x)


@lower("frac.default")
def frac(c, x):
    return c.sub(x, c.ew("trunc", x))


@lower("isnan.default")
def isnan(c, x):
    return c.ne(x, x) if x.dtype in dtypes.FLOATS else c.number("b8", False, x.shape)


@lower("isinf.default")
def isinf(c, x):
    return c.eq(c.ew("abs", x), math.inf) if x.dtype in dtypes.FLOATS else c.number("b8", False, x.shape)


@lower("isposinf.default")
def isposinf(c, x):
    return c.eq(x, math.inf) if x.dtype in dtypes.FLOATS else c.number("b8", False, x.shape)


@lower("isneginf.default")
def isneginf(c, x):
    return c.eq(x, -math.inf) if x.dtype in dtypes.FLOATS else c.number("b8", False, x.shape)


@lower("signbit.default")
def signbit(c, x):
    if x.dtype in dtypes.FLOATS:
        return c.lt(c.ew("copysign", c.number(x.dtype, 1, x.shape), x), 0)
    return c.number("b8", False, x.shape) if x.dtype == "b8" else c.lt(x, 0)


@lower("nan_to_num.default")
def nan_to_num(c, x, nan=None, posinf=None, neginf=None):
    if x.dtype not in dtypes.FLOATS:
        return x
    top = LARGEST[x.dtype]
    out = c.where(c.ne(x, x), 0.0 if nan is None else nan, x)
    out = c.where(c.eq(x, -math.inf), -top if neginf is None else neginf, out)
    return c.where(c.eq(x, math.inf), top if posinf is None else posinf, out)


@lower("special_spherical_bessel_j0.default")
def spherical_bessel_j0(c, x):
    """sin(x) / x; its Taylor series near zero; 0 at infinity."""

    def form(x):
        square, series = c.mul(x, x), c.number(x.dtype, 1)
        for k in (10, 8, 6, 4, 2):
            series = c.sub(c.number(x.dtype, 1), c.mul(c.mul(square, 1 / (k * (k + 1))), series))
        out = c.where(c.lt(c.ew("abs", x), 0.5), series, c.div(c.ew("sin", x), x))
        return c.where(c.eq(c.ew("abs", x), math.inf), c.number(x.dtype, 0), out)

    return compute(c, form, x)


# --- activations
@lower("relu.default")
def relu(c, x):
    return c.ew("max", x, 0)


@lower("gelu.default")
def gelu(c, x, *, approximate="none"):
    if approximate == "none":
        return c.ew("gelu", x)

    def tanh_form(x):
        inner = c.mul(c.add(x, c.mul(c.mul(c.mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
        return c.mul(c.mul(x, 0.5), c.add(c.ew("tanh", inner), 1.0))

    return compute(c, tanh_form, x)


@lower("silu.default")
def silu(c, x):
    return compute(c, lambda x: c.mul(x, c.ew("sigmoid", x)), x)


@lower("leaky_relu.default")
def leaky_relu(c, x, negative_slope=0.01):
    return compute(c, lambda x: c.where(c.lt(c.number(x.dtype, 0), x), x, c.mul(x, negative_slope)), x)


@lower("elu.default")
def elu(c, x, alpha=1.0, scale=1.0, input_scale=1.0):
    def form(x):
        low = c.mul(c.ew("expm1", c.mul(x, input_scale)), alpha * scale)
        return c.where(c.le(x, 0), low, c.mul(x, scale))

    return compute(c, form, x)


@lower("hardtanh.default")
def hardtanh(c, x, min_val=-1.0, max_val=1.0):
    return c.ew("min", c.ew("max", x, min_val), max_val)


@lower("clamp.default", "clamp.Tensor")
def clamp(c, x, min=None, max=None):
    out = c.out_dtype
    x = c.cast(x, out)
    if min is not None:
        x = c.ew("max", x, c.scalar(min, out))
    if max is not None:
        x = c.ew("min", x, c.scalar(max, out))
    return x


@lower("clamp_min.default", "clamp_min.Tensor")
def clamp_min(c, x, low):
    return c.ew("max", c.cast(x, c.out_dtype), c.scalar(low, c.out_dtype))


@lower("clamp_max.default", "clamp_max.Tensor")
def clamp_max(c, x, high):
    return c.ew("min", c.cast(x, c.out_dtype), c.scalar(high, c.out_dtype))


# --- conversions
@lower("_to_copy.default", "to.dtype")
def to_copy(c, x, **_):
    return c.number(c.out_dtype, x) if isinstance(x, (bool, int, float)) else c.cast(x, c.out_dtype)


@lower("prims.convert_element_type.default", "prims.device_put.default")
def convert_element_type(c, x, *_, **__):
    return c.cast(x, c.out_dtype)


@lower("view.dtype", "view_copy.dtype")
def view_dtype(c, x, dtype):
    name = c.out_dtype
    if name == x.dtype:
        return x
    if "b8" in (name, x.dtype) or dtypes.TORCH[name].itemsize != dtypes.TORCH[x.dtype].itemsize:
        raise Unsupported("reinterpretation in another size")
    return c.make("bitcast", [x], dtype=name)
