# hologram_torch/lowering/quantized.py: quantisation as torch.export's quantiser writes it
from hologram._quantised import Quantised

from ..graph.builder import Value
from . import lower


def _limited(c, x, low, high):
    """Rounded numbers as integers from `low` to `high`. By way of 32 bits, one instruction each, as NaN is 0 in both ways."""
    x = c.ew("min", c.ew("max", x, low), high)
    return c.cast(c.cast(x, "i32") if c.out_dtype in ("i8", "u8") else x, c.out_dtype)


def _moved_by(c, x, zero):
    """x + zero, where a sum with 0 cannot be told from x once it is an integer."""
    return x if type(zero) is int and zero == 0 else c.add(x, zero)


@lower("quantized_decomposed.choose_qparams.tensor")
def choose_qparams(c, x, low, high, eps, dtype):
    """Scale in f64 and zero point of the range of all numbers, 0 among them."""
    axes = list(range(len(x.shape)))
    least = c.ew("min", c.reduce("min", x, axes), c.number(x.dtype, 0))
    most = c.ew("max", c.reduce("max", x, axes), c.number(x.dtype, 0))
    scale = c.ew("max", c.cast(c.div(c.sub(most, least), c.number(x.dtype, high - low)), "f32"), c.number("f32", eps))
    zero = c.ew("round", c.div(least, c.cast(scale, x.dtype)))
    zero = c.ew("min", c.ew("max", c.sub(c.number("i64", low), c.cast(zero, "i64")), low), high)
    return c.reshape(c.cast(scale, "f64"), [1]), c.reshape(zero, [1])


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
