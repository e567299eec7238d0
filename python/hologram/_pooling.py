# hologram/_pooling.py: maxima and means over windows
# mypy: disable-error-code="no-untyped-def,no-untyped-call"
"""Small windows are written out: the result is an element-wise chain over the taps, each a shifted and strided view of
the image, which fuses with what follows. Large ones are reductions over windows."""

import math

from hologram._convolution import pad_axes, per_axis, spread, windows
from hologram._graph import FLOATS, compute, numel

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
        high = [m - n - p for m, n, p in zip(need, self.image, self.padding, strict=True)]
        # Of open sizes the most that may be needed: the last window begins in the image or its border.
        most = [p + d * (k - 1) for p, d, k in zip(self.padding, self.dilation, self.sizes, strict=True)]
        high = [max(h, 0) if isinstance(h, int) else m for h, m in zip(high, most, strict=True)]
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
    if dtype in FLOATS:
        return -math.inf
    bits = int(dtype[1:])
    return 0 if dtype.startswith("u") else -(1 << (bits - 1))


def max_pool(pool, positions=True):
    """Maxima and their positions in the image; `positions`: whether anything reads those."""
    c, x = pool.c, pool.x
    low = least(x.dtype)
    if numel(pool.sizes) > MOST_TAPS:
        return max_of_windows(pool, low)
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
    image, border = (pool.padded(low), None) if positions else (pool, low)
    value, at = None, c.broadcast(c.cast(pool.position(firsts), narrow), shape)
    for place in pool.places():
        tap = image.tap(image.x, place, border)
        if value is None:
            best = tap
            found = c.lt(c.number(x.dtype, low, shape), tap)
        else:
            found = c.lt(value, tap)
            best = c.ew("max", value, tap)
        if x.dtype in FLOATS:
            found = c.either(found, c.ne(tap, tap))
        here = pool.position([c.number("i64", n, [1] * pool.rank) for n in place])
        at = c.where(found, c.broadcast(c.cast(here, narrow), shape), at)
        value = best
    return value, c.add(c.cast(at, "i64"), c.broadcast(pool.position(starts), shape))


def max_of_windows(pool, low):
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


def divisor_of(pool, include_pad, override):
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


def mean(pool, divisor):
    c = pool.c
    out, wide = pool.x.dtype, compute(pool.x.dtype)
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
