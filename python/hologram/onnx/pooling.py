# hologram/onnx/pooling.py: maxima, means and norms over windows
# mypy: ignore-errors
import numpy as np

from hologram import _pooling as pools
from hologram._convolution import pad_axes
from hologram._graph import numel
from hologram.onnx.call import plain
from hologram.onnx.convolution import Geometry
from hologram.onnx.table import operator


def _counts(call, g, image):
    """Windows along each axis."""
    out = []
    for axis, n in enumerate(image):
        span, stride = g.dilation[axis] * (g.sizes[axis] - 1) + 1, g.strides[axis]
        room = n + g.low[axis] + g.high[axis] - span
        if not call.attr("ceil_mode", 0):
            out.append(room // stride + 1)
            continue
        count = (room + (stride - 1)) // stride + 1
        # A window that begins in the border behind the image is none.
        if isinstance(count, int) and isinstance(n, int) and (count - 1) * stride >= n + g.low[axis]:
            count -= 1
        out.append(count)
    return out


def _pool(call, x):
    image = list(x.shape[2:])
    g = Geometry(call, image, call.attr("kernel_shape"))
    node = x.value
    counts = plain(_counts(call, g, image))
    return g, pools.Pool(call.b, node, g.sizes, g.strides, g.low, g.dilation, counts)


@operator("MaxPool")
def max_pool(call, x):
    x = call.lift(x)
    g, pool = _pool(call, x)
    if not call.has(1):
        return _largest(pool)
    values, at = pools.max_pool(pool)
    shape, b = x.value.shape, call.b
    plane = numel(shape[2:])
    if call.attr("storage_order", 0) and len(shape) == 4:
        height, width = shape[2:]
        at = b.add(b.mul(b.ew("rem", at, b.scalar(width, "i64")), b.scalar(height, "i64")), b.div(at, b.scalar(width, "i64")))
    lead = numel(shape[:2])
    base = b.mul(b.iota("i64", [lead], 0), b.scalar(plane, "i64"))
    return values, b.add(at, b.reshape(base, [*shape[:2], *[1] * (len(shape) - 2)]))


def _largest(pool):
    """The largest of each window, without where it was."""
    c, low = pool.c, pools.least(pool.x.dtype)
    if numel(pool.sizes) > pools.MOST_TAPS:
        wide = pool.windows(low)
        return c.reduce("max", wide, list(range(len(pool.out_shape), len(wide.shape))))
    best = None
    for place in pool.places():
        tap = pool.tap(pool.x, place, low)
        best = tap if best is None else c.ew("max", best, tap)
    return best


@operator("AveragePool")
def average_pool(call, x):
    b, x = call.b, call.lift(x)
    g, pool = _pool(call, x)
    return pools.mean(pool, _divisor(call, g, pool))


def _divisor(call, g, pool):
    """How many elements each window counts, along each axis."""
    b, include = call.b, call.attr("count_include_pad", 0)
    total = None
    for axis in range(pool.rank):
        size, step, n = g.sizes[axis], g.dilation[axis], pool.image[axis]
        count, stride, low, high = pool.counts[axis], g.strides[axis], g.low[axis], g.high[axis]
        if isinstance(n, int) and isinstance(count, int):
            places = np.arange(count)[:, None] * stride - low + np.arange(size)[None, :] * step
            first, last = (-low, n + high) if include else (0, n)
            part = ((places >= first) & (places < last)).sum(1)
            part = b.number("i64", int(part[0])) if np.all(part == part[0]) else _column(call, part, axis, pool.rank)
        elif low == 0 and (high == 0 or include) and not call.attr("ceil_mode", 0):
            part = b.number("i64", size)
        else:
            start = pool.start(axis)
            part = None
            for k in range(size):
                at = b.add(start, k * step)
                limit = b.scalar(n + high if include else n, "i64")
                inside = b.both(b.le(b.number("i64", -low if include else 0), at), b.lt(at, limit))
                inside = b.cast(inside, "i64")
                part = inside if part is None else b.add(part, inside)
        total = part if total is None else b.mul(total, part)
    return total


def _column(call, values, axis, rank):
    shape = [1] * rank
    shape[axis] = len(values)
    return call.value(values.astype(np.int64).reshape(shape))


@operator("LpPool")
def lp_pool(call, x):
    b, x = call.b, call.lift(x)
    p = call.attr("p", 2)
    kind = b.wide(x.value).dtype
    powers = b.ew("abs", b.cast(x.value, kind))
    powers = powers if p == 1 else b.mul(powers, powers) if p == 2 else b.ew("pow", powers, float(p))
    _, pool = _pool(call, call.lift(powers))
    total = pools._window_sums(pool)
    out = total if p == 1 else b.ew("sqrt", total) if p == 2 else b.ew("pow", total, 1.0 / p)
    return b.cast(out, x.value.dtype)


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(call, x):
    b, x = call.b, call.value(x)
    axes = list(range(2, len(x.shape)))
    op, wide = call.node_of_model.op, b.wide(x)
    if op == "GlobalMaxPool":
        return b.reduce("max", x, axes, True)
    if op == "GlobalAveragePool":
        return b.cast(b.mean(wide, axes, True), x.dtype)
    p = call.attr("p", 2)
    total = b.reduce("sum", b.ew("pow", b.ew("abs", wide), float(p)), axes, True)
    return b.cast(b.ew("pow", total, 1.0 / p), x.dtype)


@operator("MaxUnpool", known=(2,))
def max_unpool(call, x, at, wanted=None):
    b = call.b
    x, at = call.lift(x), call.value(at)
    image = list(x.shape[2:])
    g = Geometry(call, image, call.attr("kernel_shape"))
    sizes = [
        (n - 1) * s + k - a - z for n, s, k, a, z in zip(image, g.strides, g.sizes, g.low, g.high)
    ]  # fmt: skip
    lead = list(x.value.shape[:2])
    own = plain(sizes)
    shape = [*lead, *own] if wanted is None else [int(n) for n in wanted]
    base = b.number(x.value.dtype, 0, [numel([*lead, *own])])
    filled = b.scatter(base, b.reshape(at, [numel(at.shape)]), b.flatten(x.value), 0)
    filled = b.reshape(filled, [*lead, *own])
    if wanted is None:
        return filled
    return pad_axes(b, filled, list(range(2, len(shape))), [0] * len(own), [n - m for n, m in zip(shape[2:], own)])

