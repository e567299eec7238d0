# hologram/onnx/casts.py: conversions of element types
# mypy: ignore-errors
import numpy as np

from hologram.onnx import tensors
from hologram.onnx.call import Array, is_known, is_sizes
from hologram.onnx.table import operator
from hologram.trace import _NAMES

_FINITE = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e5m2", "float4_e2m1fn")


@operator("Cast", sizes=True)
def cast(call, x):
    return converted(call, x, tensors.dtype_of(call.attr("to")))


@operator("CastLike", sizes=True)
def cast_like(call, x, like):
    return converted(call, x, np.dtype(np.int64) if is_sizes(like) else like.dtype)


def converted(call, x, dtype):
    if is_sizes(x):
        if dtype.kind in "iu" and dtype.itemsize >= 4:
            return x
        x = call.lift(x)
    saturate, rounding = bool(call.attr("saturate", 1)), call.attr("round_mode", "up")
    if is_known(x):
        return convert(x, dtype, saturate, rounding)
    if x.foreign or dtype.name not in _NAMES:
        return call.tracer.host("numpy.Cast", convert, (x, dtype, saturate, rounding), {})
    return x.make(call.tracer.cast(x, dtype))


def convert(x, dtype, saturate=True, rounding="up"):
    """NumPy's conversion, with the standard's rules for float8 and integers of few bits."""
    if dtype == x.dtype:
        return x
    name = dtype.name
    with np.errstate(all="ignore"):
        if name == "float8_e8m0fnu":
            return _powers(x.astype(np.float32), saturate, rounding)
        if name in _FINITE:
            return _narrow(x.astype(np.float32), dtype, saturate)
        if name in ("int4", "uint4", "int2", "uint2"):
            info = tensors.of_ml_dtypes("iinfo")(dtype)
            whole = np.asarray(x.astype(np.float32) if x.dtype.kind == "V" else x)
            whole = whole.astype(np.int64) if whole.dtype.kind != "f" else np.trunc(whole).astype(np.int64)
            bits = info.bits
            low = whole & ((1 << bits) - 1)
            if info.min < 0:
                low = np.where(low >= 1 << (bits - 1), low - (1 << bits), low)
            return low.astype(np.int8).astype(dtype)
        if x.dtype.name in ("int4", "uint4", "int2", "uint2"):
            return x.astype(np.int8 if x.dtype.name.startswith("i") else np.uint8).astype(dtype)
        if x.dtype.name.startswith(("float8", "float4")):
            return x.astype(np.float32).astype(dtype)
        return x.astype(dtype)


def _narrow(x, dtype, saturate):
    if dtype.name == "float4_e2m1fn":
        return np.clip(x, -6, 6).astype(dtype)
    most = float(tensors.of_ml_dtypes("finfo")(dtype).max)
    y = x.astype(dtype)
    if not saturate:
        if dtype.name == "float8_e4m3fn":
            beyond = np.isinf(x) | (np.abs(x.astype(np.float64)) > most) & np.isnan(y.astype(np.float32))
            return np.where(beyond, np.float32(np.nan), y.astype(np.float32)).astype(dtype)
        return y
    large = np.isinf(x) | ~np.isnan(x) & (np.abs(x) > most)
    return np.where(large, np.copysign(np.float32(most), x), y.astype(np.float32)).astype(dtype)


def _powers(x, saturate, rounding):
    """Powers of two, by exponents alone."""
    bits = x.view(np.uint32) if x.ndim else np.asarray(x).reshape(1).view(np.uint32).reshape(())
    exponent = (bits >> 23) & 0xFF
    fraction = bits & 0x7FFFFF
    if rounding == "up":
        more = fraction > 0
    elif rounding == "nearest":
        more = fraction >= 0x400000
    else:
        more = np.zeros_like(fraction, dtype=bool)
    special = exponent == 0xFF
    raised = exponent + (more & (exponent < 0xFE if saturate else exponent < 0xFF)).astype(np.uint32)
    out = np.where(special, np.where(fraction == 0, 0xFE if saturate else 0xFF, 0xFF), raised).astype(np.uint8)
    return out.view(tensors.of_ml_dtypes("float8_e8m0fnu"))


@operator("BitCast")
def bit_cast(call, x):
    dtype = tensors.dtype_of(call.attr("to"))
    if is_known(x):
        return np.ascontiguousarray(x).view(dtype)
    if isinstance(x, Array) and (x.foreign or dtype.name not in _NAMES or "bool" in (x.dtype.name, dtype.name)):
        return call.tracer.host("numpy.BitCast", lambda a, kind: np.ascontiguousarray(a).view(kind), (x, dtype), {})
    return call.b.make("bitcast", [x.value], dtype=_NAMES[dtype.name])
