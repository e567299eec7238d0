# hologram/onnx/pointwise.py: element-wise operators
# mypy: ignore-errors
import math

import numpy as np

from hologram._graph import FLOATS
from hologram._operands import match
from hologram.onnx import random
from hologram.onnx.call import is_known, is_native, is_sizes
from hologram.onnx.table import operator


def unary(name, op, function=None, since=1):
    """An operator that is an operation of the graph; `function`: NumPy's, for values that are known."""

    @operator(name, since=since, sizes=function is not None, fold=function is None)
    def lower(call, x):
        if is_known(x) and function is not None:
            return function(x)
        return call.b.ew(op, call.value(x))


for _name, _op, _function in (
    ("Abs", "abs", np.abs), ("Neg", "neg", np.negative), ("Exp", "exp", None), ("Log", "log", None), ("Sqrt", "sqrt", None),
    ("Sin", "sin", None), ("Cos", "cos", None), ("Tan", "tan", None), ("Asin", "asin", None), ("Acos", "acos", None),
    ("Atan", "atan", None), ("Sinh", "sinh", None), ("Cosh", "cosh", None), ("Tanh", "tanh", None), ("Asinh", "asinh", None),
    ("Acosh", "acosh", None), ("Atanh", "atanh", None), ("Erf", "erf", None), ("Sigmoid", "sigmoid", None),
    ("Round", "round", None), ("BitwiseNot", "bit_not", None), ("Not", "bit_not", np.logical_not),
):  # fmt: skip
    unary(_name, _op, _function)


@operator("Floor", "Ceil")
def floor(call, x):
    return call.b.ew(call.node_of_model.op.lower(), call.value(x))


@operator("Sign")
def sign(call, x):
    x = call.value(x)
    return call.b.where(call.b.ne(x, x), x, call.b.ew("sign", x))  # NaN stays NaN


@operator("Identity", sizes=True)
def identity(call, x):
    return x


@operator("Reciprocal")
def reciprocal(call, x):
    x = call.value(x)
    return call.b.div(call.b.number(x.dtype, 1), x)


@operator("Relu")
def relu(call, x):
    return call.b.ew("max", call.value(x), 0)


def in_wide(form):
    """A composition that computes halves in float32 and rounds once."""

    def lower(call, x, *rest):
        x = call.value(x)
        return call.b.cast(form(call, call.b.wide(x), *rest), x.dtype)

    return lower


def exp_minus_one(b, x):
    return b.ew("expm1", x)


@operator("Elu")
@in_wide
def elu(call, x):
    b = call.b
    return b.where(b.lt(x, 0), b.mul(exp_minus_one(b, b.ew("min", x, 0)), call.attr("alpha", 1.0)), x)


@operator("Celu")
@in_wide
def celu(call, x):
    b, alpha = call.b, call.attr("alpha", 1.0)
    return b.where(b.lt(x, 0), b.mul(exp_minus_one(b, b.div(b.ew("min", x, 0), alpha)), alpha), x)


@operator("Selu")
@in_wide
def selu(call, x):
    b = call.b
    alpha, gamma = call.attr("alpha", 1.67326319217681884765625), call.attr("gamma", 1.05070102214813232421875)
    return b.mul(b.where(b.lt(x, 0), b.mul(exp_minus_one(b, b.ew("min", x, 0)), alpha), x), gamma)


@operator("LeakyRelu")
@in_wide
def leaky_relu(call, x):
    b = call.b
    return b.where(b.lt(x, 0), b.mul(x, call.attr("alpha", 0.01)), x)


@operator("ThresholdedRelu")
@in_wide
def thresholded_relu(call, x):
    b = call.b
    return b.where(b.lt(b.number(x.dtype, call.attr("alpha", 1.0), x.shape), x), x, 0)


@operator("PRelu")
def prelu(call, x, slope):
    b = call.b
    x, slope = call.values(x, slope)
    return b.where(b.lt(x, 0), b.mul(x, slope), x)


@operator("HardSigmoid")
@in_wide
def hard_sigmoid(call, x):
    b = call.b
    return b.ew("min", b.ew("max", b.add(b.mul(x, call.attr("alpha", 0.2)), call.attr("beta", 0.5)), 0), 1)


@operator("HardSwish")
@in_wide
def hard_swish(call, x):
    b = call.b
    return b.mul(x, b.ew("min", b.ew("max", b.add(b.mul(x, 1 / 6), 0.5), 0), 1))


@operator("Softplus")
@in_wide
def softplus(call, x):
    return softplus_of(call.b, x)


def softplus_of(b, x):
    return b.add(b.ew("max", x, 0), b.ew("log1p", b.ew("exp", b.ew("neg", b.ew("abs", x)))))


@operator("Softsign")
@in_wide
def softsign(call, x):
    b = call.b
    return b.div(x, b.add(b.ew("abs", x), 1))


@operator("Mish")
@in_wide
def mish(call, x):
    b = call.b
    return b.mul(x, b.ew("tanh", softplus_of(b, x)))


@operator("Swish")
@in_wide
def swish(call, x):
    b = call.b
    return b.mul(x, b.ew("sigmoid", b.mul(x, call.attr("alpha", 1.0))))


@operator("Gelu")
@operator("Gelu", domain="com.microsoft")
@in_wide
def gelu(call, x):
    b = call.b
    if call.attr("approximate", "none") == "tanh":
        inner = b.mul(b.add(x, b.mul(b.mul(b.mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
        return b.mul(b.mul(x, 0.5), b.add(b.ew("tanh", inner), 1))
    return b.ew("gelu", x)


@operator("Shrink")
def shrink(call, x):
    b, x = call.b, call.value(x)
    bias, edge = call.attr("bias", 0.0), call.attr("lambd", 0.5)
    kind = "f64" if x.dtype not in FLOATS else b.wide(x).dtype
    wide = b.cast(x, kind)
    low, high = b.lt(wide, -edge), b.lt(b.number(kind, edge, x.shape), wide)
    return b.cast(b.where(low, b.add(wide, bias), b.where(high, b.sub(wide, bias), b.number(kind, 0, x.shape))), x.dtype)


@operator("IsNaN")
def is_nan(call, x):
    x = call.value(x)
    return call.b.ne(x, x)


@operator("IsInf")
def is_inf(call, x):
    b, x = call.b, call.value(x)
    up = b.eq(x, math.inf) if call.attr("detect_positive", 1) else b.number("b8", 0, x.shape)
    down = b.eq(x, -math.inf) if call.attr("detect_negative", 1) else b.number("b8", 0, x.shape)
    return b.either(up, down)


@operator("Clip", known=())
def clip(call, x, low=None, high=None):
    b, x = call.b, call.value(x)
    low = call.attr("min") if low is None else call.value(low)
    high = call.attr("max") if high is None else call.value(high)
    if low is not None:
        x = b.ew("max", x, low)
    return x if high is None else b.ew("min", x, high)


# --- two operands


def binary(name, op, function, domain=""):
    @operator(name, sizes=True, domain=domain)
    def lower(call, x, y):
        if is_known(x) and is_known(y):
            return function(x, y)
        out = call.b.ew(op, *call.values(x, y))
        _note_scale(call, out, x, y)
        return out


def _note_scale(call, out, x, y):
    """Of a product with a number, for attention."""
    op = call.node_of_model.op
    if op in ("Mul", "Div") and is_known(y) and y.size == 1 and y.dtype.kind == "f" and y.item():
        call.tracer.scaled[out.id] = call.value(x), y.item() if op == "Mul" else 1 / y.item()
    elif op == "Mul" and is_known(x) and x.size == 1 and x.dtype.kind == "f":
        call.tracer.scaled[out.id] = call.value(y), x.item()


def truncated(x, y):
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        zero = y == 0
        if np.any(zero):
            raise ZeroDivisionError("integer division by zero")
        whole = np.abs(x) // np.abs(y) if x.dtype.kind == "i" else x // y
        return np.where((x < 0) != (y < 0), -whole, whole).astype(x.dtype) if x.dtype.kind == "i" else whole
    return x // y if is_sizes(x) or is_sizes(y) else x / y


for _name, _op, _function in (
    ("Add", "add", np.add), ("Sub", "sub", np.subtract), ("Mul", "mul", np.multiply), ("Div", "div", truncated),
    ("Equal", "eq", np.equal), ("Less", "lt", np.less), ("LessOrEqual", "le", np.less_equal),
    ("And", "bit_and", np.logical_and), ("Or", "bit_or", np.logical_or), ("Xor", "bit_xor", np.logical_xor),
    ("BitwiseAnd", "bit_and", np.bitwise_and), ("BitwiseOr", "bit_or", np.bitwise_or), ("BitwiseXor", "bit_xor", np.bitwise_xor),
):  # fmt: skip
    binary(_name, _op, _function)


@operator("Greater", "GreaterOrEqual", sizes=True)
def greater(call, x, y):
    equal = call.node_of_model.op == "GreaterOrEqual"
    if is_known(x) and is_known(y):
        return x >= y if equal else x > y
    return call.b.ew("le" if equal else "lt", *call.values(y, x))


@operator("Mod", sizes=True)
def mod(call, x, y):
    if is_known(x) and is_known(y):
        return np.fmod(x, y) if call.attr("fmod", 0) else x % y
    b = call.b
    x, y = call.values(x, y)
    rest = b.ew("rem", x, y)
    if call.attr("fmod", 0) or x.dtype.startswith("u"):
        return rest
    other = b.both(b.ne(rest, 0), b.ne(b.lt(rest, 0), b.lt(y, b.number(y.dtype, 0))))
    return b.where(other, b.add(rest, y), rest)


@operator("Pow")
def power(call, x, y):
    b = call.b
    nodes = call.values(x, y)
    if nodes[0].dtype in FLOATS:
        kind = b.wide(nodes[0]).dtype
        return b.cast(b.ew("pow", b.cast(nodes[0], kind), b.cast(nodes[1], kind)), nodes[0].dtype)
    if nodes[1].dtype in FLOATS:
        return b.cast(b.ew("pow", b.cast(nodes[0], "f64"), b.cast(nodes[1], "f64")), nodes[0].dtype)
    return np.power(call.lift(x), call.lift(y).astype(x.dtype))


@operator("BitShift")
def bit_shift(call, x, y):
    return call.b.ew("shl" if call.attr("direction") == "LEFT" else "shr", *call.values(x, y))


@operator("Max", "Min", sizes=True)
def extreme(call, *operands):
    op = call.node_of_model.op.lower()
    if all(map(is_known, operands)):
        out = operands[0]
        for x in operands[1:]:
            out = (np.maximum if op == "max" else np.minimum)(out, x)
        return out
    return joined(call, op, operands)


def joined(call, op, operands):
    first, *rest = call.values(*operands)
    for x in rest:
        first = call.b.ew(op, first, x)
    return first


@operator("Sum", "Mean")
def total(call, *operands):
    x = joined(call, "add", operands)
    return x if call.node_of_model.op == "Sum" or len(operands) == 1 else call.b.div(x, len(operands))


@operator("Where", sizes=True)
def where(call, condition, x, y):
    if is_known(condition) and is_known(x) and is_known(y):
        return np.where(condition, x, y)
    condition, x, y = call.lift(condition), call.lift(x), call.lift(y)
    if is_native(condition, x, y) and x.dtype == y.dtype:
        return call.b.where(*match(call.tracer, [condition.value, x.value, y.value]))
    return call.lift(np.where(condition, x, y))


@operator("Dropout", known=(1, 2))
def dropout(call, x, ratio=None, training=None):
    ratio = 0.5 if ratio is None else float(ratio.item())
    if training is None or not training.item() or not ratio:
        x = call.value(x)
        return x, call.b.number("b8", 1, x.shape)
    kept, x = random.mask(call, x, ratio), call.lift(x)
    return np.where(kept, x * (1 / (1 - ratio)) if ratio < 1 else x, np.zeros((), x.dtype)), kept
