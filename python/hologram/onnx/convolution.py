# hologram/onnx/convolution.py: convolutions
# mypy: ignore-errors
import numpy as np

from hologram import _convolution as windows
from hologram import _quantised
from hologram._graph import numel
from hologram.onnx.call import Dim, numbers, plain
from hologram.onnx.table import operator


class Geometry:
    """What the attributes of a convolution or pooling say, an entry an axis of the image."""

    def __init__(self, call, image, sizes):
        rank = len(sizes)
        self.sizes = list(sizes)
        self.strides = list(call.attr("strides") or [1] * rank)
        self.dilation = list(call.attr("dilations") or [1] * rank)
        pads = list(call.attr("pads") or [0] * (2 * rank))
        self.low, self.high = pads[:rank], pads[rank:]
        self.auto = call.attr("auto_pad", "NOTSET")
        if self.auto == "VALID":
            self.low, self.high = [0] * rank, [0] * rank
        elif self.auto in ("SAME_UPPER", "SAME_LOWER"):
            self._same(image)

    def _same(self, image):
        """As many results as pixels, divided by the stride."""
        for axis, (n, size, stride, step) in enumerate(zip(image, self.sizes, self.strides, self.dilation)):
            span = step * (size - 1) + 1
            if stride == 1:
                total = span - 1
            else:
                n = n if isinstance(n, int) else int(n)
                total = max((-(-n // stride) - 1) * stride + span - n, 0)
            small, large = total // 2, total - total // 2
            self.low[axis], self.high[axis] = (small, large) if self.auto == "SAME_UPPER" else (large, small)


@operator("Conv")
def conv(call, x, w, bias=None):
    b = call.b
    image = list(call.lift(x).shape[2:])
    x, w, bias = call.values(x, w, bias)
    rank = len(w.shape) - 2
    g = Geometry(call, image, w.shape[2:])
    groups = call.attr("group", 1)
    return b.cast(with_bias(b, convolved(b, x, w, g, groups), bias, rank), x.dtype)


def convolved(b, x, w, g, groups):
    """The convolution of an image and a weight, of bytes where both were."""
    y = _quantised.convolved(b, x, w, g.strides, g.low, g.high, g.dilation, groups)
    if y is None:
        y = windows.convolve(b, windows.channels_last(b, x), w, g.strides, g.low, g.high, g.dilation, groups, wide=True)
    return y


def with_bias(b, y, bias, rank):
    return y if bias is None else b.add(y, b.cast(b.reshape(bias, [1, bias.shape[0], *[1] * rank]), y.dtype))


@operator("ConvTranspose")
def conv_transpose(call, x, w, bias=None):
    b = call.b
    sizes_in = list(call.lift(x).shape[2:])
    x, w, bias = call.values(x, w, bias)
    rank = len(w.shape) - 2
    g = Geometry(call, sizes_in, w.shape[2:])
    groups = call.attr("group", 1)
    extra = list(call.attr("output_padding") or [0] * rank)
    wanted = call.attr("output_shape")
    spans = [d * (k - 1) + 1 for d, k in zip(g.dilation, g.sizes)]
    if wanted:
        wanted = list(wanted)[-rank:]
    elif g.auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(sizes_in, g.strides)]
    low, sizes = g.low, []
    for axis, n in enumerate(sizes_in):
        full = g.strides[axis] * (n - 1) + extra[axis] + spans[axis]
        if wanted:
            total = full - wanted[axis]
            total = total if isinstance(total, int) else int(total)
            low[axis] = total // 2 if g.auto == "SAME_UPPER" else total - total // 2
            sizes.append(wanted[axis])
        else:
            sizes.append(full - g.low[axis] - g.high[axis])
    y = windows.transposed(b, x, w, g.strides, low, g.dilation, groups, plain(sizes), wide=True)
    return b.cast(with_bias(b, y, bias, rank), x.dtype)


@operator("DeformConv")
def deform_conv(call, x, w, offset, bias=None, mask=None):
    """Taps at places between pixels: four pixels each, weighted, then a product over taps and channels."""
    b = call.b
    x, w, offset, bias, mask = call.values(x, w, offset, bias, mask)
    if len(x.shape) != 4 or any(isinstance(n, Dim) for n in x.shape):
        raise NotImplementedError(f"from_onnx: {call.node_of_model}: only images with two axes of known size are supported")
    n, channels, height, width = x.shape
    out, _, kh, kw = w.shape
    g = Geometry(call, [height, width], [kh, kw])
    groups, parts = call.attr("group", 1), call.attr("offset_group", 1)
    oh, ow = offset.shape[2:]
    offset = b.reshape(offset, [n, parts, kh * kw, 2, oh, ow])

    def coordinate(which, size, count, axis):
        base = np.zeros((1, 1, kh * kw, *([oh, ow])), np.float32)
        taps = np.arange(size) * g.dilation[which] - g.low[which]
        taps = np.repeat(taps, kw) if which == 0 else np.tile(taps, kh)
        line = np.arange(count) * g.strides[which]
        base += taps[None, None, :, None, None] + (line[:, None] if axis == 0 else line[None, :])
        return b.ew("add", b.select_axis(offset, 3, which), call.value(base))

    y, x_at = coordinate(0, kh, oh, 0), coordinate(1, kw, ow, 1)
    from hologram.onnx.images import sample_bilinear

    image = b.reshape(x, [n * parts, channels // parts, height * width])
    flat = [n * parts, kh * kw * oh * ow]
    taken = sample_bilinear(b, image, b.reshape(y, flat), b.reshape(x_at, flat), height, width)
    taken = b.reshape(taken, [n, parts, channels // parts, kh * kw, oh * ow])
    if mask is not None:
        taken = b.ew("mul", taken, b.reshape(mask, [n, parts, 1, kh * kw, oh * ow]))
    taken = b.reshape(taken, [n, groups, channels // groups * kh * kw, oh * ow])
    weight = b.broadcast(b.reshape(w, [1, groups, out // groups, channels // groups * kh * kw]),
                         [n, groups, out // groups, channels // groups * kh * kw])  # fmt: skip
    result = b.reshape(b.dot(weight, taken, wide=True), [n, out, oh, ow])
    return b.cast(with_bias(b, result, bias, 2), x.dtype)


@operator("Col2Im", known=(1, 2))
def col2im(call, x, image, block):
    """Adds blocks into an image: a scatter of each column's elements."""
    b, x = call.b, call.value(x)
    image, block = numbers(image), [int(n) for n in numbers(block)]
    g, rank = Geometry(call, image, block), len(block)
    padded = [n + a + z for n, a, z in zip(image, g.low, g.high)]
    counts = [(n - (d * (k - 1) + 1)) // s + 1 for n, d, k, s in zip(padded, g.dilation, block, g.strides)]
    (batch, depth, columns), taps = (call.tracer.dim(n) for n in x.shape), numel(block)
    if depth % taps or columns != numel(counts):
        raise ValueError(f"{depth} x {columns} numbers for blocks of {taps} at {numel(counts)} places")

    def line(n, axis):
        shape = [n if a == axis else 1 for a in range(2 * rank)]
        return np.arange(n).reshape(shape) if isinstance(n, int) else call.lift(b.iota("i64", plain(shape), axis))

    at = None
    for axis, n in enumerate(padded):
        here = line(counts[axis], rank + axis) * g.strides[axis] + line(block[axis], axis) * g.dilation[axis]
        at = here if at is None else here + (at * n if isinstance(n, int) else call.tracer.size_value(n.expr) * call.lift(at))
    pixels, channels = numel(padded), depth // taps
    updates = b.reshape(x, [batch * channels, taps * numel(counts)])
    base = b.number(x.dtype, 0, [batch * channels, pixels])
    filled = b.scatter(base, call.lift(at).reshape(-1).value, updates, 1, "add")
    return b.slice(b.reshape(filled, [batch, channels, *padded]), [0, 0, *g.low], [batch, channels, *image])
