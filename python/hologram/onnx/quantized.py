# hologram/onnx/quantized.py: quantisation, and products of bytes
# mypy: ignore-errors
import numpy as np

from hologram import _convolution as windows
from hologram._quantised import Quantised
from hologram.onnx import casts, tensors
from hologram.onnx.call import Array, is_known, name_of
from hologram.onnx.convolution import Geometry, with_bias
from hologram.onnx.products import product
from hologram.onnx.table import operator

_BYTES = ("i8", "u8")
_RANGES = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "u16": (0, 65535)}


def _spread(call, v, shape, axis, block):
    """Scales or zero points for the elements of `shape`."""
    b = call.b
    if not v.shape or v.shape == [1] and len(shape) != 1:
        return b.reshape(v, [1] * len(shape))
    if block:
        sizes = list(v.shape)
        v = b.broadcast(b.unsqueeze(v, axis + 1), [*sizes[: axis + 1], block, *sizes[axis + 1 :]])
        sizes[axis] = sizes[axis] * block
        v = b.reshape(v, sizes)
        return b.slice(v, [0] * len(sizes), shape)
    return b.reshape(v, [v.shape[0] if i == axis else 1 for i in range(len(shape))])


@operator("QuantizeLinear", fold=False)
def quantize(call, x, scale, zero=None):
    out = tensors.dtype_of(call.attr("output_dtype")) if call.attr("output_dtype") else np.dtype(np.uint8)
    out = zero.dtype if zero is not None else out
    if not _native(out):
        return _quantize_apart(call, x, scale, zero, out)
    b = call.b
    x, scale = call.value(x), call.value(scale)
    kind = "f32" if x.dtype not in ("f64",) else "f64"
    precision = call.attr("precision")
    if precision:
        kind = "f16" if tensors.dtype_of(precision) == np.float16 else kind
    shape, axis = x.shape, call.attr("axis", 1) % max(len(x.shape), 1)
    block = call.attr("block_size", 0)
    steps = b.cast(_spread(call, scale, shape, axis, block), kind)
    y = b.ew("round", b.ew("div", b.cast(x, kind), steps))
    if zero is not None:
        y = b.ew("add", y, b.cast(_spread(call, call.value(zero), shape, axis, block), kind))
    name = _name(out)
    return limited(b, y, name)


def _native(dtype):
    return dtype.name in ("int8", "uint8", "int16", "uint16")


def _name(dtype):
    return ("u" if dtype.kind == "u" else "i") + str(8 * dtype.itemsize)


def limited(b, y, name):
    """Whole numbers as bytes or 16 bits, those out of range as the nearest."""
    low, high = _RANGES[name]
    return b.cast(b.cast(b.ew("min", b.ew("max", y, low), high), "i32"), name)


def _quantize_apart(call, x, scale, zero, out):
    """To dtypes that graphs lack: by NumPy."""
    axis, block, saturate = call.attr("axis", 1), call.attr("block_size", 0), bool(call.attr("saturate", 1))

    def apply(x, scale, zero):
        steps = spread_array(scale, x.shape, axis, block).astype(np.float32)
        y = x.astype(np.float32) / steps
        if out.name.startswith(("float8", "float4")):
            if zero is not None:
                y = y + spread_array(zero, x.shape, axis, block).astype(np.float32)
            return casts.convert(y, out, saturate)
        y = np.rint(y)
        if zero is not None:
            whole = zero.astype(np.int8) if out.name.startswith("int") else zero.astype(np.uint8)
            y = y + spread_array(whole, x.shape, axis, block).astype(np.float32)
        info = tensors.of_ml_dtypes("iinfo")(out)
        return np.clip(y, info.min, info.max).astype(np.int8).astype(out)

    return _apart(call, "QuantizeLinear", apply, x, scale, zero)


def _apart(call, name, function, *operands):
    if any(isinstance(x, Array) for x in operands):
        return call.tracer.host(f"numpy.{name}", function, operands, {})
    return function(*operands)


def spread_array(v, shape, axis, block):
    if v.ndim == 0 or v.size == 1 and len(shape) != 1:
        return v.reshape([1] * len(shape))
    axis %= len(shape)
    if block:
        v = np.repeat(v, block, axis)
        return v[tuple(slice(0, n) for n in shape)]
    return v.reshape([v.shape[0] if i == axis else 1 for i in range(len(shape))])


@operator("DequantizeLinear", fold=False)
def dequantize(call, q, scale, zero=None):
    out = tensors.dtype_of(call.attr("output_dtype")) if call.attr("output_dtype") else scale.dtype
    axis, block = call.attr("axis", 1), call.attr("block_size", 0)
    narrow = ("float8", "float4", "int4", "uint4", "int2", "uint2")
    if any(v is not None and v.dtype.name.startswith(narrow) for v in (q, scale, zero)):

        def apply(q, scale, zero):
            wide = casts.convert(q, np.dtype(np.float32))
            if zero is not None:
                wide = wide - spread_array(casts.convert(zero, np.dtype(np.float32)), q.shape, axis, block)
            return (wide * spread_array(scale, q.shape, axis, block).astype(np.float32)).astype(out)

        return _apart(call, "DequantizeLinear", apply, q, scale, zero)
    known = int(zero.reshape(-1)[0]) if is_known(zero) and zero.size and np.all(zero == zero.reshape(-1)[0]) else None
    b = call.b
    q, scale, zero = call.values(q, scale, zero)
    shape, axis = q.shape, axis % max(len(q.shape), 1)
    steps = _spread(call, scale, shape, axis, block)
    kind = "f64" if q.dtype == "i32" and steps.dtype == "f64" else "f32"
    factor = b.cast(steps, kind)
    places = None
    if zero is not None:
        places = b.cast(_spread(call, zero, shape, axis, block), "i32")
        wide = b.cast(b.ew("sub", b.cast(q, "i32"), places), kind)
    else:
        wide = b.cast(q, kind)
    y = b.cast(b.ew("mul", wide, factor), name_of(out))
    if q.dtype in ("i8", "u8") and y.dtype == "f32" and not block:  # products of such nodes are of bytes
        b.quantised[y.id] = Quantised(q, factor, known if known is not None else places)
    return y


@operator("DynamicQuantizeLinear")
def dynamic_quantize(call, x):
    b, x = call.b, call.value(x)
    axes = list(range(len(x.shape)))
    high = b.ew("max", b.reduce("max", x, axes), 0)
    low = b.ew("min", b.reduce("min", x, axes), 0)
    scale = b.where(b.eq(high, low), b.number("f32", 1), b.div(b.sub(high, low), 255))
    zero = b.ew("round", b.ew("min", b.ew("max", b.div(b.ew("neg", low), scale), 0), 255))
    y = b.ew("round", b.ew("div", x, b.broadcast(scale, x.shape)))
    y = b.ew("add", y, b.broadcast(zero, x.shape))
    return limited(b, y, "u8"), scale, limited(b, zero, "u8")


# --- products of bytes: exact sums in 32 bits


def _sums(call, x, y, zero_x, zero_y):
    """Σ (x - zero_x) (y - zero_y) in i32 of x [.., m, k] and y [.., k, n]; zero points that broadcast against rows and columns."""
    b = call.b
    z = product(call, x, y, "i32")
    depth = x.shape[-1]
    if zero_x is not None:
        columns = b.reduce("sum", b.cast(y, "i32"), [len(y.shape) - 2], True)
        z = b.ew("sub", z, b.ew("mul", columns, zero_x))
    if zero_y is not None:
        rows = b.reduce("sum", b.cast(x, "i32"), [len(x.shape) - 1], True)
        if zero_x is not None:
            rows = b.ew("sub", rows, b.ew("mul", b.scalar(depth, "i32"), zero_x))
        z = b.ew("sub", z, b.ew("mul", rows, zero_y))
    return z


def _of_column(call, zero):
    """Zero points of the right factor: one, or one a column; None where they are 0."""
    if _is_zero(zero):
        return None
    b = call.b
    zero = b.cast(call.value(zero), "i32")
    return b.reshape(zero, []) if len(zero.shape) <= 1 and all(isinstance(n, int) and n == 1 for n in zero.shape) else zero


def _of_row(call, zero):
    """Of the left factor: one, or one a row."""
    zero = _of_column(call, zero)
    return call.b.reshape(zero, [zero.shape[0], 1]) if zero is not None and len(zero.shape) == 1 else zero


def _is_zero(x):
    return x is None or is_known(x) and not np.any(x)


@operator("MatMulInteger", fold=False)
def matmul_integer(call, x, y, zero_x=None, zero_y=None):
    return _sums(call, *call.values(x, y), _of_row(call, zero_x), _of_column(call, zero_y))


@operator("QLinearMatMul", fold=False)
def qlinear_matmul(call, x, scale_x, zero_x, y, scale_y, zero_y, scale, zero):
    out = zero.dtype
    if any(v.dtype.name.startswith(("float8", "int4", "uint4")) for v in (x, y, zero)):
        raise NotImplementedError(f"from_onnx: {call.node_of_model}: products of {x.dtype} are not supported")
    b = call.b
    z = b.cast(_sums(call, *call.values(x, y), _of_row(call, zero_x), _of_column(call, zero_y)), "f32")
    rows, columns, target = (b.cast(v, "f32") for v in call.values(scale_x, scale_y, scale))
    if rows.shape and not (isinstance(rows.shape[0], int) and rows.shape[0] == 1):
        rows = b.reshape(rows, [rows.shape[0], 1])
    factor = b.ew("div", b.ew("mul", rows, columns), target)
    y = b.ew("add", b.ew("round", b.ew("mul", z, factor)), b.cast(call.value(zero), "f32"))
    return limited(b, y, _name(out))


def _convolved(call, x, w, zero_x, zero_w):
    """The sums of a convolution of bytes, as i32 [n, c, d…]."""
    b = call.b
    g = Geometry(call, list(call.lift(x).shape[2:]), w.shape[2:])
    groups = call.attr("group", 1)
    x, w = call.values(x, w)
    rank, sizes, out = len(w.shape) - 2, w.shape[2:], w.shape[0]
    border, exact = 0, _is_zero(zero_x)
    if not exact:
        if not is_known(zero_x):  # a border of zero points is needed: taken off before
            x = b.ew("sub", b.cast(x, "i32"), b.cast(b.reshape(call.value(zero_x), [1] * len(x.shape)), "i32"))
        else:
            border = int(zero_x.reshape(-1)[0])
    image = windows.channels_last(b, x)
    counts = windows.out_counts(image, sizes, g.strides, g.low, g.high, g.dilation)
    left = windows.rows(b, image, groups, g.low, g.high, sizes, counts, g.strides, g.dilation, border)
    right = windows.columns(b, w, groups)
    if x.dtype == "i32":
        left, right = b.cast(left, "f64"), b.cast(right, "f64")
        z = b.cast(b.dot(left, right), "i32")
        inner = None
        wide = b.cast(left, "i32")
    else:
        z = b.make("dot_general", [left, right], ints=[0], dtype="i32")
        inner = border or None
        wide = b.cast(left, "i32")
    last = len(left.shape) - 1
    if inner is not None:
        z = b.ew("sub", z, b.mul(b.reduce("sum", b.cast(right, "i32"), [last - 1], True), inner))
    if not _is_zero(zero_w):
        zero = b.cast(call.value(zero_w), "i32")
        zero = b.reshape(zero, [1] * (last + 1)) if windows.numel(zero.shape) == 1 else b.reshape(
            zero, [1, out] if groups == 1 else [groups, 1, out // groups])  # fmt: skip
        sums = b.reduce("sum", wide, [last], True)
        if inner is not None:
            sums = b.sub(sums, left.shape[-1] * inner)
        z = b.ew("sub", z, b.ew("mul", sums, zero))
    return windows.image_of(b, z, groups, image.shape[0], counts, out), rank


@operator("ConvInteger", fold=False)
def conv_integer(call, x, w, zero_x=None, zero_w=None):
    return _convolved(call, x, w, zero_x, zero_w)[0]


@operator("QLinearConv", fold=False)
def qlinear_conv(call, x, scale_x, zero_x, w, scale_w, zero_w, scale, zero, bias=None):
    b, out = call.b, zero.dtype
    z, rank = _convolved(call, x, w, zero_x, zero_w)
    if bias is not None:
        z = with_bias(b, z, call.value(bias), rank)
    of_x, of_w, target = call.values(scale_x, scale_w, scale)
    factor = b.ew("div", b.ew("mul", of_x, of_w), target)
    if factor.shape and not (len(factor.shape) == 1 and factor.shape[0] == 1):
        factor = b.reshape(factor, [1, factor.shape[0], *[1] * rank])
    else:
        factor = b.reshape(factor, [1] * (rank + 2))
    y = b.ew("round", b.ew("mul", b.cast(z, "f32"), factor))
    y = b.ew("add", y, b.cast(b.reshape(call.value(zero), [1] * (rank + 2)), "f32"))
    return limited(b, y, _name(out))

