# hologram_torch/lowering/pooling.py: maxima and means over windows
"""Small windows are written out: the result is an element-wise chain over the taps, each a shifted and strided view of
the image, which fuses with what follows. Large ones are reductions over windows."""

import functools
import itertools
import math

from ..graph import dtypes
from ..graph.builder import numel
from . import Unsupported, lower
from .convolution import pad_axes, per_axis, spread, windows

MOST_TAPS = 36


class Pool:
    """The geometry of one pooling over the last axes of x."""

    def __init__(self, c, x, sizes, strides, padding, dilation, counts):
        self.c, self.x = c, x
        self.rank = rank = len(counts)
        self.sizes = per_axis(sizes, rank)
        self.strides = per_axis(strides, rank) if strides else self.sizes
        self.padding = per_axis(padding, rank)
        self.dilation = per_axis(dilation, rank)
        self.counts = list(counts)
        shape = list(x.shape)
        self.lead, self.image = shape[: len(shape) - rank], shape[len(shape) - rank :]
        self.axes = list(range(len(self.lead), len(shape)))
        self.out_shape = [*self.lead, *self.counts]

    def places(self):
        """The taps in row-major order, each with its offset along every axis."""
        out = [()]
        for size, dilation in zip(self.sizes, self.dilation, strict=True):
            out = [(*place, k * dilation) for place in out for k in range(size)]
        return out

    def tap(self, x, place, value):
        """x at every window's tap, `value` outside of the image."""
        low = [p - k for p, k in zip(self.padding, place, strict=True)]
        shape = [s * (n - 1) + 1 for s, n in zip(self.strides, self.counts, strict=True)]
        high = [m - n - a for m, n, a in zip(shape, self.image, low, strict=True)]
        steps = [*[1] * len(self.lead), *self.strides]
        if value is None:  # windows do not leave the image
            return self.c.slice(x, [*[0] * len(self.lead), *place], self.out_shape, steps)
        x = pad_axes(self.c, x, self.axes, low, high, value)
        return self.c.slice(x, [0] * len(steps), self.out_shape, steps)

    def padded(self, value):
        """The same windows of an image that has its border in memory: for taps that are read more than once each."""
        need = [
            s * (n - 1) + d * (k - 1) + 1
            for s, n, d, k in zip(self.strides, self.counts, self.dilation, self.sizes, strict=True)
        ]
        high = [max(m - n - p, 0) for m, n, p in zip(need, self.image, self.padding, strict=True)]
        x = pad_axes(self.c, self.x, self.axes, self.padding, high, value)
        return Pool(self.c, x, self.sizes, self.strides, [0] * self.rank, self.dilation, self.counts)

    def untap(self, y, place):
        """For every element of the image: y at the window that has the element at this tap, 0 if there is none."""
        y = spread(self.c, y, self.axes, self.strides)
        low = [k - p for p, k in zip(self.padding, place, strict=True)]
        high = [n - m - a for n, m, a in zip(self.image, y.shape[len(self.lead) :], low, strict=True)]
        return pad_axes(self.c, y, self.axes, low, high)

    def near(self, y, back):
        """For every element of the image: y at the last window that may have it, or `back` windows before that one
        along each axis; 0 where there is none. Windows are not dilated."""
        c, lead = self.c, len(self.lead)
        shape = list(y.shape)
        for axis, stride in zip(self.axes, self.strides, strict=True):
            if stride > 1:
                y = c.broadcast(c.unsqueeze(y, axis + 1), [*shape[: axis + 1], stride, *shape[axis + 1 :]])
                shape[axis] = shape[axis] * stride
                y = c.reshape(y, shape)
        low = [s * n - p for s, n, p in zip(self.strides, back, self.padding, strict=True)]
        high = [n - m - a for n, m, a in zip(self.image, shape[lead:], low, strict=True)]
        return pad_axes(c, y, self.axes, low, high)

    def windows(self, value):
        """x's windows with their axes last."""
        c, x = self.c, self.x
        need = [
            s * (n - 1) + d * (k - 1) + 1
            for s, n, d, k in zip(self.strides, self.counts, self.dilation, self.sizes, strict=True)
        ]
        high = [m - n - p for m, n, p in zip(need, self.image, self.padding, strict=True)]
        x = pad_axes(c, x, self.axes, self.padding, high, value)
        return windows(c, x, self.axes, self.sizes, self.counts, self.strides, self.dilation)

    def line(self, axis, n, scale=1, offset=0):
        """scale * i + offset along one axis of the window counts (or of the image), as i64."""
        shape = [1] * self.rank
        shape[axis] = n
        line = self.c.graph.iota("i64", shape, axis)
        if scale != 1:
            line = self.c.mul(line, scale)
        return self.c.add(line, offset) if offset != 0 else line

    def start(self, axis):
        """Where each window begins along an axis."""
        return self.line(axis, self.counts[axis], self.strides[axis], -self.padding[axis])

    def position(self, coordinates):
        """The row-major position in the image of coordinates that broadcast."""
        at = coordinates[0]
        for n, x in zip(self.image[1:], coordinates[1:], strict=True):
            at = self.c.add(self.c.mul(at, self.c.scalar(n, "i64")), x)
        return at

    def own_places(self):
        """The row-major position of each element of the image."""
        lines = [self.line(axis, self.image[axis]) for axis in range(self.rank)]
        return self.position(lines)


def least(dtype):
    if dtype in dtypes.FLOATS:
        return -math.inf
    bits = 8 * dtypes.TORCH[dtype].itemsize
    return 0 if dtype.startswith("u") else -(1 << (bits - 1))


def _geometry(c, x, kernel, stride, padding, dilation, rank, counts):
    if x.dtype == "b8" or len(x.shape) not in (rank + 1, rank + 2):
        raise Unsupported("pooling of this operand")
    if any(type(n) is int and n == 0 for n in (*x.shape, *counts)):
        raise Unsupported("pooling without elements")
    return Pool(c, x, kernel, stride, padding, dilation, counts)


def _max_pool(pool):
    """Maxima and their positions in the image."""
    c, x = pool.c, pool.x
    low = least(x.dtype)
    if numel(pool.sizes) > MOST_TAPS:
        return _max_of_windows(pool, low)
    best = found = None
    # While maxima are found, positions are offsets from the window's start: half as wide, and the same for all windows.
    narrow = "i32" if all(type(n) is int for n in pool.image) else "i64"
    firsts, starts = [], []
    for axis in range(pool.rank):
        start, step = pool.start(axis), pool.dilation[axis]
        first = c.number("i64", 0, start.shape)
        if pool.padding[axis]:
            below = c.ew("max", c.sub(first, start), first)
            first = c.mul(c.div(c.add(below, step - 1), step), step)
        starts.append(start)
        firsts.append(first)
    shape = pool.out_shape
    image, border = (pool.padded(low), None) if c.uses(1) else (pool, low)
    value, at = None, c.broadcast(c.cast(pool.position(firsts), narrow), shape)
    for place in pool.places():
        tap = image.tap(image.x, place, border)
        if value is None:
            best = tap
            found = c.lt(c.number(x.dtype, low, shape), tap)
        else:
            found = c.lt(value, tap)
            best = c.ew("max", value, tap)
        if x.dtype in dtypes.FLOATS:
            found = c.either(found, c.ne(tap, tap))
        here = pool.position([c.number("i64", n, [1] * pool.rank) for n in place])
        at = c.where(found, c.broadcast(c.cast(here, narrow), shape), at)
        value = best
    return value, c.add(c.cast(at, "i64"), c.broadcast(pool.position(starts), shape))


def _max_of_windows(pool, low):
    c = pool.c
    wide = pool.windows(low)
    last = list(range(len(pool.out_shape), len(wide.shape)))
    at = c.reduce("argmax", wide, last)
    places, coordinates = at, []
    for axis in reversed(range(pool.rank)):
        size = pool.sizes[axis]
        here = c.mul(c.ew("rem", places, size), pool.dilation[axis])
        coordinates.append(c.add(here, c.broadcast(pool.start(axis), pool.out_shape)))
        places = c.div(places, size)
    return c.reduce("max", wide, last), pool.position(coordinates[::-1])


@lower("max_pool2d_with_indices.default")
def max_pool2d(c, x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    return _max_pool(_geometry(c, x, kernel, stride, padding, dilation, 2, c.out_shapes[0][-2:]))


@lower("max_pool3d_with_indices.default")
def max_pool3d(c, x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    return _max_pool(_geometry(c, x, kernel, stride, padding, dilation, 3, c.out_shapes[0][-3:]))


def _exact_window(n, out):
    if type(n) is not int or type(out) is not int or out == 0 or n % out:
        raise Unsupported("adaptive windows of different sizes")
    return n // out


def _adaptive(rank):
    def lowering(c, x, size):
        counts = c.out_shapes[0][-rank:]
        kernel = [_exact_window(n, out) for n, out in zip(x.shape[-rank:], counts, strict=True)]
        return _max_pool(_geometry(c, x, kernel, (), (0,), (1,), rank, counts))

    return lowering


lower("adaptive_max_pool2d.default")(_adaptive(2))
lower("adaptive_max_pool3d.default")(_adaptive(3))


def _adaptive_mean(rank):
    def lowering(c, x, size):
        counts = c.out_shape[-rank:]
        sizes = x.shape[-rank:]
        if any(type(n) is not int or type(out) is not int or out == 0 for n, out in zip(sizes, counts, strict=True)):
            raise Unsupported("adaptive windows of symbolic sizes")
        if all(n % out == 0 for n, out in zip(sizes, counts, strict=True)):
            kernel = [n // out for n, out in zip(sizes, counts, strict=True)]
            pool = _geometry(c, x, kernel, (), (0,), (1,), rank, counts)
            return _mean(pool, c.number(dtypes.compute(x.dtype), numel(kernel)))
        wide = c.cast(x, dtypes.compute(x.dtype))
        for axis in range(-rank, 0):
            wide = _adaptive_line(c, wide, len(x.shape) + axis, counts[axis])
        return c.cast(wide, x.dtype)

    return lowering


def _adaptive_line(c, x, axis, count):
    """Means along one axis of the windows [floor(i n / count), ceil((i + 1) n / count))."""
    n = x.shape[axis]
    if n % count == 0 and n // count <= MOST_TAPS:
        taps = [c.slice_axis(x, axis, k, count, n // count) for k in range(n // count)]
        return c.div(functools.reduce(c.add, taps), n // count)
    longest = max(-(-(i + 1) * n // count) - i * n // count for i in range(count))
    if longest > MOST_TAPS:
        raise Unsupported("adaptive windows of many sizes")
    at = c.graph.iota("i64", [count], 0)
    start = c.div(c.mul(at, n), count)
    length = c.sub(c.div(c.add(c.mul(c.add(at, 1), n), count - 1), count), start)
    along = [count if a == axis else 1 for a in range(len(x.shape))]
    length = c.reshape(length, along)
    total = None
    for k in range(longest):
        tap = c.take(x, c.ew("min", c.add(start, k), n - 1), axis)
        if total is None:
            total = tap
        else:
            inside = c.broadcast(c.lt(c.number("i64", k), length), tap.shape)
            total = c.where(inside, c.add(total, tap), total)
    return c.div(total, c.cast(length, x.dtype))


lower("_adaptive_avg_pool2d.default")(_adaptive_mean(2))
lower("_adaptive_avg_pool3d.default")(_adaptive_mean(3))


@lower("max_pool2d_with_indices_backward.default")
def max_pool2d_backward(c, grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    return _max_pool_backward(c, grad, x, kernel, stride, padding, dilation, indices, 2)


@lower("max_pool3d_with_indices_backward.default")
def max_pool3d_backward(c, grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    return _max_pool_backward(c, grad, x, kernel, stride, padding, dilation, indices, 3)


def _max_pool_backward(c, grad, x, kernel, stride, padding, dilation, indices, rank):
    pool = _geometry(c, x, kernel, stride, padding, dilation, rank, grad.shape[-rank:])
    if numel(pool.sizes) > MOST_TAPS:
        raise Unsupported("gradient of a large window")
    wide = dtypes.compute(grad.dtype)
    grad = c.cast(grad, wide)
    own = c.broadcast(pool.own_places(), x.shape)
    indices = c.add(indices, 1)  # where there is no window, 0 is read
    total = None
    if all(d == 1 for d in pool.dilation):
        # An element's position is that of at most ceil(size / stride) windows along an axis; the first come first.
        backs = itertools.product(*(range((k - 1) // s, -1, -1) for k, s in zip(pool.sizes, pool.strides, strict=True)))
        views = [(pool.near(indices, back), pool.near(grad, back)) for back in backs]
    else:
        views = [(pool.untap(indices, place), pool.untap(grad, place)) for place in pool.places()]
    for index, share in views:
        part = c.where(c.eq(index, c.add(own, 1)), share, c.number(wide, 0, x.shape))
        total = part if total is None else c.add(total, part)
    return c.cast(total, x.dtype)


def _divisor(pool, include_pad, override):
    """How many elements each window counts, as a value that broadcasts, or a number."""
    c = pool.c
    if override is not None:
        return c.scalar(override, "i64")
    total = None
    for axis in range(pool.rank):
        size, n, p = pool.sizes[axis], pool.image[axis], pool.padding[axis]
        start = pool.start(axis)
        end = c.add(start, size)
        limit = n + p if include_pad else n
        end = c.ew("min", end, c.broadcast(c.scalar(limit, "i64"), end.shape))
        if not include_pad and p:
            start = c.ew("max", start, c.number("i64", 0, start.shape))
        whole = p == 0 or include_pad
        exact = whole and type(n) is int and type(pool.counts[axis]) is int and (
            pool.strides[axis] * (pool.counts[axis] - 1) - p + size <= n + p
        )
        part = c.number("i64", size) if exact else c.sub(end, start)
        total = part if total is None else c.mul(total, part)
    return total


def _mean(pool, divisor):
    c = pool.c
    out, wide = pool.x.dtype, dtypes.compute(pool.x.dtype)
    pool.x = c.cast(pool.x, wide)
    return c.cast(c.div(_window_sums(pool), c.cast(divisor, wide)), out)


def _window_sums(pool):
    c = pool.c
    if numel(pool.sizes) > MOST_TAPS and max(pool.sizes) < numel(pool.sizes):
        # Axis by axis: a window of 8 × 8 takes 16 additions instead of 64.
        x = pool.x
        for i, axis in enumerate(pool.axes):
            shape = list(x.shape)
            lead = c.permute(x, [*(a for a in range(len(shape)) if a != axis), axis])
            geometry = ([v[i]] for v in (pool.sizes, pool.strides, pool.padding, pool.dilation, pool.counts))
            line = Pool(c, lead, *geometry)
            back = [*range(axis), len(shape) - 1, *range(axis, len(shape) - 1)]
            x = c.permute(_window_sums(line), back)
        return x
    if numel(pool.sizes) > MOST_TAPS:
        x = pool.windows(0)
        return c.reduce("sum", x, list(range(len(pool.out_shape), len(x.shape))))
    total = None
    for place in pool.places():
        tap = pool.tap(pool.x, place, 0)
        total = tap if total is None else c.add(total, tap)
    return total


def _avg_pool(rank):
    def lowering(c, x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
        pool = _geometry(c, x, kernel, stride, padding, (1,), rank, c.out_shape[-rank:])
        return _mean(pool, _divisor(pool, count_include_pad, divisor_override))

    return lowering


lower("avg_pool1d.default")(_avg_pool(1))
lower("avg_pool2d.default")(_avg_pool(2))
lower("avg_pool3d.default")(_avg_pool(3))


def _avg_pool_backward(rank):
    def lowering(c, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
        pool = _geometry(c, x, kernel, stride, padding, (1,), rank, grad.shape[-rank:])
        if numel(pool.sizes) > MOST_TAPS and pool.sizes != pool.strides:
            raise Unsupported("gradient of a large window")
        wide = dtypes.compute(grad.dtype)
        divisor = c.cast(_divisor(pool, count_include_pad, divisor_override), wide)
        part = c.div(c.cast(grad, wide), divisor)
        if pool.sizes == pool.strides:  # each element has one window
            return c.cast(pool.near(part, [0] * rank), x.dtype)
        total = None
        for place in pool.places():
            here = pool.untap(part, place)
            total = here if total is None else c.add(total, here)
        return c.cast(total, x.dtype)

    return lowering


lower("avg_pool2d_backward.default")(_avg_pool_backward(2))
lower("avg_pool3d_backward.default")(_avg_pool_backward(3))
