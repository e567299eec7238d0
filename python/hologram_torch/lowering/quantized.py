# hologram_torch/lowering/quantized.py: quantisation as torch.export's quantiser writes it, and products of bytes made of it
from typing import NamedTuple

from ..graph.builder import Value, numel
from . import lower

DEEPEST = 33025  # products of two bytes that 32 bits sum without overflow: (2^31 - 1) / 255^2
FEW_ROWS = 8  # which read weights as they are, and take the multiply-adds


class Quantised(NamedTuple):
    """(q - zero) * scale: bytes, and what belongs to them as an int, None or values with axes of 1 where they are the same."""

    q: Value
    scale: Value
    zero: object

    def moved(self, move, move_parameter):
        zero = move_parameter(self.zero) if type(self.zero) is Value else self.zero
        return Quantised(move(self.q), move_parameter(self.scale), zero)


def _limited(c, x, low, high):
    """Rounded numbers as integers from `low` to `high`. By way of 32 bits, one instruction each, as NaN is 0 in both ways."""
    x = c.ew("min", c.ew("max", x, low), high)
    return c.cast(c.cast(x, "i32") if c.out_dtype in ("i8", "u8") else x, c.out_dtype)


def _moved_by(c, x, zero):
    """x + zero, where a sum with 0 cannot be told from x once it is an integer."""
    return x if type(zero) is int and zero == 0 else c.add(x, zero)


def _along(c, parameter, axis, rank):
    """A vector for the positions of one axis, to be broadcast."""
    shape = [1] * rank
    shape[axis] = parameter.shape[0]
    return c.reshape(parameter, shape)


@lower("quantized_decomposed.quantize_per_tensor.default")
def quantize_per_tensor(c, x, scale, zero, low, high, dtype):
    x = c.ew("round", c.mul(c.cast(x, "f32"), 1.0 / scale))
    return _limited(c, _moved_by(c, x, zero), low, high)


@lower("quantized_decomposed.quantize_per_tensor.tensor")
def quantize_per_tensor_tensor(c, x, scale, zero, low, high, dtype):
    inverse = c.cast(c.ew("div", c.number("f64", 1), c.cast(c.reshape(scale, []), "f64")), "f32")
    x = c.ew("round", c.mul(c.cast(x, "f32"), inverse))
    return _limited(c, c.add(x, c.cast(c.reshape(zero, []), "f32")), low, high)


@lower("quantized_decomposed.quantize_per_channel.default")
def quantize_per_channel(c, x, scales, zeros, axis, low, high, dtype):
    rank = len(x.shape)
    inverse = _along(c, c.div(c.number(scales.dtype, 1), scales), axis, rank)
    x = c.ew("round", c.mul(c.cast(c.cast(x, "f32"), scales.dtype), inverse))
    return _limited(c, c.add(x, c.cast(_along(c, zeros, axis, rank), x.dtype)), low, high)


@lower("quantized_decomposed.quantize_per_token.default")
def quantize_per_token(c, x, scales, zeros, low, high, dtype):
    wide = "f64" if "f64" in (x.dtype, scales.dtype) else "f32"
    if wide == "f32" and "f32" not in (x.dtype, scales.dtype):
        wide = x.dtype
    inverse = c.cast(c.div(c.number(scales.dtype, 1), scales), wide)
    x = c.add(c.mul(c.cast(x, wide), inverse), c.cast(zeros, wide))
    return _limited(c, c.ew("round", x), low, high)


def _dequantized(c, q, scale, zero):
    """(q - zero) * scale in the scale's dtype, known to products as made of bytes."""
    x = c.cast(q, scale.dtype)
    if type(zero) is Value:
        x = c.cast(c.sub(c.cast(q, zero.dtype), zero), scale.dtype)
    elif zero:
        x = c.sub(x, zero)
    out = c.cast(c.mul(x, scale), c.out_dtype)
    if q.dtype in ("i8", "u8") and scale.dtype == "f32" and out.dtype == "f32":
        low, high = (0, 255) if q.dtype == "u8" else (-128, 127)
        if zero.dtype not in ("i32", "i64") if type(zero) is Value else zero is not None and not low <= zero <= high:
            return out  # differences beyond 255 could overflow the sums
        c.quantised[out.id] = Quantised(q, scale, c.cast(zero, "i32") if type(zero) is Value else zero)
    return out


@lower("quantized_decomposed.dequantize_per_tensor.default")
def dequantize_per_tensor(c, q, scale, zero, low, high, dtype, *, out_dtype=None):
    if c.out_dtype != "f32":
        x = c.sub(c.cast(q, c.out_dtype), zero)
        return c.mul(x, scale)
    return _dequantized(c, q, c.number("f32", scale, [1] * len(q.shape)), zero)


@lower("quantized_decomposed.dequantize_per_tensor.tensor")
def dequantize_per_tensor_tensor(c, q, scale, zero, low, high, dtype, *, out_dtype=None):
    ones = [1] * len(q.shape)
    if c.out_dtype != "f32":
        x = c.sub(c.cast(q, c.out_dtype), c.cast(c.reshape(zero, []), c.out_dtype))
        return c.mul(x, c.cast(c.reshape(scale, []), c.out_dtype))
    return _dequantized(c, q, c.reshape(c.cast(scale, "f32"), ones), c.reshape(zero, ones))


@lower("quantized_decomposed.dequantize_per_channel.default")
def dequantize_per_channel(c, q, scales, zeros, axis, low, high, dtype, *, out_dtype=None):
    rank = len(q.shape)
    zero = None if zeros is None else _along(c, zeros, axis, rank)
    return _dequantized(c, q, _along(c, scales, axis, rank), zero)


@lower("quantized_decomposed.dequantize_per_token.default")
def dequantize_per_token(c, q, scales, zeros, low, high, dtype, output_dtype=None):
    return _dequantized(c, q, scales, zeros)


def _quantised(c, x):
    """What a factor was made of, through changes of shape."""
    found = c.quantised.get(x.id)
    if found or x.op not in ("permute", "reshape"):
        return found
    inner = _quantised(c, x.inputs[0])
    if inner is None:
        return None
    have, want = list(inner.q.shape), list(x.shape)
    if x.op == "permute":
        return inner.moved(*[lambda v: c.permute(v, [1, 0])] * 2) if len(want) == 2 else None
    parameters = [v for v in (inner.scale, inner.zero) if type(v) is Value]
    if not have or not want or have[-1] != want[-1]:
        return None
    ones, rows = [1] * len(have), [*have[:-1], 1]
    if any(list(v.shape) not in (ones, rows) for v in parameters):
        return None

    def move_parameter(v):
        return c.reshape(v, [1] * len(want) if list(v.shape) == ones else [*want[:-1], 1])

    return inner.moved(lambda v: c.reshape(v, want), move_parameter)


def factors(c, x, w):
    """What an image and the weight of its convolution were made of, where that is one of bytes: one scale and zero point of the
    image, those of the weight the same but for its results. (Quantised, Quantised) or None."""
    if not c.quantised or c.options.reproducible:
        return None
    a, b = _quantised(c, x), _quantised(c, w)
    if a is None or b is None or any(numel(v.shape) != 1 for v in a[1:] if type(v) is Value):
        return None
    if any(numel(v.shape[1:]) != 1 for v in b[1:] if type(v) is Value):
        return None
    return _without_zero(c, a), _without_zero(c, b)


def _without_zero(c, x):
    """The same numbers as bytes of the other sign, where these need no zero point."""
    if type(x.zero) is Value or x.zero != (128 if x.q.dtype == "u8" else -128):
        return x
    other = "i8" if x.q.dtype == "u8" else "u8"
    return Quantised(c.make("bitcast", [c.ew("bit_xor", x.q, -128 if x.q.dtype == "i8" else 128)], dtype=other), x.scale, None)


def product(c, x, y):
    """The product of two dequantised factors, as one of bytes; None where it is not one. The sums are exact: what remains of
    the rounding is one of each sum and two of its scales."""
    if not c.quantised or c.options.reproducible:
        return None
    a, b = _quantised(c, x), _quantised(c, y)
    rank, rows, depth = len(x.shape), x.shape[-2], x.shape[-1]
    if a is None or b is None or type(depth) is not int or depth > DEEPEST or (type(rows) is int and rows <= FEW_ROWS):
        return None

    def uniform(v, axis):
        return type(v) is not Value or (len(v.shape) == rank and type(v.shape[axis]) is int and v.shape[axis] == 1)

    if not all(uniform(v, -1) for v in a[1:]) or not all(uniform(v, -2) for v in b[1:]):
        return None
    a, b = _without_zero(c, a), _without_zero(c, b)
    return scaled_sums(c, a, b, lambda: c.reduce("sum", c.cast(a.q, "i32"), [rank - 1], True))


def scaled_sums(c, a, b, row_sums):
    """The product of two factors of bytes by their exact sums. row_sums: → the sums of a's rows of bytes."""
    rank, depth = len(a.q.shape), a.q.shape[-1]
    z = c.make("dot_general", [a.q, b.q], ints=[0], dtype="i32")
    left = a.zero if type(a.zero) is Value or a.zero else None
    right = b.zero if type(b.zero) is Value or b.zero else None

    if left is not None:
        z = c.sub(z, c.mul(c.reduce("sum", c.cast(b.q, "i32"), [rank - 2], True), left))
    if right is not None:
        sums = row_sums()
        if left is not None:
            sums = c.sub(sums, c.mul(c.number("i32", depth, [1] * rank), left))
        z = c.sub(z, c.mul(sums, right))
    return c.mul(c.mul(c.cast(z, "f32"), a.scale), b.scale)
