# hologram_torch/lowering/pooling.py: maxima and means over windows
import functools
import itertools

from hologram._pooling import MOST_TAPS, Pool, divisor_of, max_pool, mean

from ..graph import dtypes
from ..graph.builder import numel
from . import Unsupported, lower


def _geometry(c, x, kernel, stride, padding, dilation, rank, counts):
    if x.dtype == "b8" or len(x.shape) not in (rank + 1, rank + 2):
        raise Unsupported("pooling of this operand")
    if any(type(n) is int and n == 0 for n in (*x.shape, *counts)):
        raise Unsupported("pooling without elements")
    return Pool(c, x, kernel, stride, padding, dilation, counts)


@lower("max_pool2d_with_indices.default")
def max_pool2d(c, x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    return max_pool(_geometry(c, x, kernel, stride, padding, dilation, 2, c.out_shapes[0][-2:]), c.uses(1))


@lower("max_pool3d_with_indices.default")
def max_pool3d(c, x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    return max_pool(_geometry(c, x, kernel, stride, padding, dilation, 3, c.out_shapes[0][-3:]), c.uses(1))


def _exact_window(n, out):
    if type(n) is not int or type(out) is not int or out == 0 or n % out:
        raise Unsupported("adaptive windows of different sizes")
    return n // out


def _adaptive(rank):
    def lowering(c, x, size):
        counts = c.out_shapes[0][-rank:]
        kernel = [_exact_window(n, out) for n, out in zip(x.shape[-rank:], counts, strict=True)]
        return max_pool(_geometry(c, x, kernel, (), (0,), (1,), rank, counts), c.uses(1))

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
            return mean(pool, c.number(dtypes.compute(x.dtype), numel(kernel)))
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


def _empty(*shapes) -> bool:
    return any(type(n) is int and n == 0 for shape in shapes for n in shape)


def _avg_pool(rank):
    def lowering(c, x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
        if _empty(c.out_shape, x.shape):
            return c.number(x.dtype, 0, c.out_shape)  # of no images
        pool = _geometry(c, x, kernel, stride, padding, (1,), rank, c.out_shape[-rank:])
        return mean(pool, divisor_of(pool, count_include_pad, divisor_override))

    return lowering


lower("avg_pool1d.default")(_avg_pool(1))
lower("avg_pool2d.default")(_avg_pool(2))
lower("avg_pool3d.default")(_avg_pool(3))


def _avg_pool_backward(rank):
    def lowering(c, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
        if _empty(x.shape):
            return c.number(x.dtype, 0, x.shape)
        pool = _geometry(c, x, kernel, stride, padding, (1,), rank, grad.shape[-rank:])
        wide = dtypes.compute(grad.dtype)
        divisor = c.cast(divisor_of(pool, count_include_pad, divisor_override), wide)
        part = c.div(c.cast(grad, wide), divisor)
        if pool.sizes == pool.strides:  # each element has one window
            return c.cast(pool.near(part, [0] * rank), x.dtype)
        if numel(pool.sizes) > MOST_TAPS:  # one axis after the other
            for axis in reversed(range(rank)):
                part = _spread_line(c, part, pool, axis)
            return c.cast(part, x.dtype)
        return c.cast(_over_windows(c, part, pool), x.dtype)

    return lowering


def _over_windows(c, part, pool):
    """For each element the sum over the windows that it belongs to."""
    return functools.reduce(c.add, [pool.untap(part, place) for place in pool.places()])


def _spread_line(c, part, pool, axis):
    """The same along one axis of windows that are one element along the others."""
    if pool.sizes[axis] > MOST_TAPS:
        raise Unsupported("gradient of a large window")
    size, stride, padding = ([v if a == axis else other for a, v in enumerate(values)]
                             for values, other in ((pool.sizes, 1), (pool.strides, 1), (pool.padding, 0)))  # fmt: skip
    counts = part.shape[-pool.rank :]
    image = [pool.image[a] if a == axis else n for a, n in enumerate(counts)]
    line = Pool(c, c.number(part.dtype, 0, [*pool.lead, *image]), size, stride, padding, (1,), counts)
    return _over_windows(c, part, line)


lower("avg_pool2d_backward.default")(_avg_pool_backward(2))
lower("avg_pool3d_backward.default")(_avg_pool_backward(3))
