# hologram_torch/lowering/convolution.py: convolutions as products over windows
"""A convolution is a product: rows are pixels of the result, columns its channels, and the depth runs over the taps
and the channels of the image, channels fastest. `window` makes the left operand without copying, so that strides,
dilation, padding and groups are index arithmetic. A transposed convolution, or the gradient of the image, is the same
product over the image with zeros between its pixels and the taps reversed."""

import itertools

from hologram import _core

from ..graph import dtypes
from ..graph.builder import Value, numel
from . import Unsupported, lower, quantized

LEAST_RESULTS, LEAST_DEPTH = 16, 32  # of a group whose products are of bytes
FEW_CHANNELS = 4  # of a pixel whose bytes are fewer than what is done for each pixel
MOST_PHASES = 16  # products that share out the pixels of a strided convolution's image
MOST_SUMS = 25  # taps of a depthwise convolution whose gradient is a sum for each of them
MOST_PIXELS = 384  # of a block whose sum is one chain
MOST_IN_GROUP, MOST_DEPTH = 8, 128  # results of a group and elements of its windows that are summed in blocks

def per_axis(values, rank):
    """One number an axis from PyTorch's lists, whose single element counts for all axes."""
    values = list(values)
    return values * rank if len(values) == 1 else values


def windows(c, x, axes, sizes, counts, strides, dilation):
    """Windows of `sizes` along `axes` of x; their own axes follow behind x's."""
    for axis, size, count, stride, step in zip(axes, sizes, counts, strides, dilation, strict=True):
        x = c.make("window", [x], ints=[axis, stride, step], shape=[*x.shape[:axis], count, *x.shape[axis + 1 :], size])
    return x


def pad_axes(c, x, axes, low, high, value=0):
    """x with `low` and `high` more elements (fewer where negative) at the ends of `axes`."""
    if all(n == 0 for n in (*low, *high)):
        return x
    before, shape = [0] * len(x.shape), list(x.shape)
    for axis, a, b in zip(axes, low, high, strict=True):
        before[axis] = a
        shape[axis] = shape[axis] + a + b
    return c.pad(x, before, shape, value)


def pad_pixels(c, x, low, high, value):
    """A channels-last image with a border. Of a few bytes a pixel lines are padded whole, not pixel by pixel."""
    axes, (width, channels) = range(1, len(low) + 1), x.shape[len(low) :]
    few = x.dtype in ("u8", "i8") and type(width) is int and type(channels) is int and 1 < channels <= FEW_CHANNELS
    if not few or low[-1] < 0 or high[-1] < 0 or not (low[-1] or high[-1]):
        return pad_axes(c, x, axes, low, high, value)
    lines = c.reshape(x, [*x.shape[:-2], width * channels])
    lines = pad_axes(c, lines, axes, [*low[:-1], low[-1] * channels], [*high[:-1], high[-1] * channels], value)
    return c.reshape(lines, [*lines.shape[:-1], low[-1] + width + high[-1], channels])


def spread(c, x, axes, strides):
    """x with strides[i] - 1 zeros between neighbours along axes[i]."""
    for axis, stride in zip(axes, strides, strict=True):
        if stride == 1:
            continue
        shape = list(x.shape)
        n = shape[axis]
        x = c.reshape(x, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
        x = c.pad(x, [0] * len(x.shape), [*shape[: axis + 1], stride, *shape[axis + 1 :]], 0)
        shape[axis] = n * stride
        x = c.reshape(x, shape)
        shape[axis] = n * stride - (stride - 1)
        x = c.slice(x, [0] * len(shape), shape)
    return x


def out_size(n, low, high, size, stride, dilation):
    span = dilation * (size - 1) + 1
    return _core.floor_div(n + low + high - span, stride) + 1


def channels_last(c, x):
    """[n, c, d…] → [n, d…, c]"""
    rank = len(x.shape)
    return c.permute(x, [0, *range(2, rank), 1])


def rows(c, x, groups, low, high, sizes, counts, strides, dilation, border=0):
    """The left operand [groups, pixels, taps * channels of a group] of a channels-last image (no groups axis for 1), beyond
    whose edges lies `border`."""
    rank = len(sizes)
    axes = list(range(1, rank + 1))
    batch, channels = x.shape[0], x.shape[-1]
    if groups > 1:
        channels = channels // groups
        x = c.reshape(x, [*x.shape[:-1], groups, channels])
        x = pad_axes(c, x, axes, low, high, border)
    else:
        x = pad_pixels(c, x, low, high, border)
    plain = all(s == 1 for s in sizes)
    if plain and all(s == 1 for s in strides):
        pass
    elif plain:
        shape = [batch, *counts, *x.shape[rank + 1 :]]
        steps = [1, *strides, *[1] * (len(shape) - rank - 1)]
        x = c.slice(x, [0] * len(shape), shape, steps)
    else:
        x = windows(c, x, axes, sizes, counts, strides, dilation)
    pixels, image = [0, *axes], len(x.shape) - (0 if plain else rank)
    taps = [] if plain else list(range(image, image + rank))
    inner = [image - 1]
    lead = [image - 2] if groups > 1 else []
    x = c.permute(x, [*lead, *pixels, *taps, *inner])
    depth = numel(sizes) * channels
    return c.reshape(x, [*([groups] if groups > 1 else []), numel([batch, *counts]), depth])


def columns(c, w, groups):
    """The right operand [groups, taps * channels, results of a group] of a weight [results, channels, taps…]."""
    rank = len(w.shape) - 2
    out, channels, *sizes = w.shape
    depth = numel(sizes) * channels
    if groups == 1:
        w = c.permute(w, [*range(2, rank + 2), 1, 0])
        return c.reshape(w, [depth, out])
    w = c.reshape(w, [groups, out // groups, channels, *sizes])
    w = c.permute(w, [0, *range(3, rank + 3), 2, 1])
    return c.reshape(w, [groups, depth, out // groups])


def image_of(c, y, groups, batch, counts, channels):
    """The product [groups, pixels, results of a group] as [n, c, d…]."""
    rank = len(counts)
    if groups == 1:
        y = c.reshape(y, [batch, *counts, channels])
        return c.permute(y, [0, rank + 1, *range(1, rank + 1)])
    y = c.reshape(y, [groups, batch, *counts, channels // groups])
    y = c.permute(y, [1, 0, rank + 2, *range(2, rank + 2)])
    return c.reshape(y, [batch, channels, *counts])


def out_counts(x, sizes, strides, low, high, dilation):
    """Pixels along each axis of the convolution of a channels-last image."""
    return [
        out_size(n, a, b, size, stride, step)
        for n, a, b, size, stride, step in zip(x.shape[1:-1], low, high, sizes, strides, dilation, strict=True)
    ]


def convolve(c, x, w, strides, low, high, dilation, groups, wide=False):
    """The convolution of a channels-last image, as [n, c, d…]; `wide`: not yet rounded to 16 bits."""
    sizes = w.shape[2:]
    if not all(type(n) is int for n in w.shape):
        raise Unsupported("convolution with a weight of symbolic size")
    counts = out_counts(x, sizes, strides, low, high, dilation)
    if w.shape[0] == groups == x.shape[-1] and all(n == 1 for n in sizes):
        return _scaled(c, x, w, low, high, counts, strides, wide)
    left = rows(c, x, groups, low, high, sizes, counts, strides, dilation)
    y = c.dot(left, columns(c, w, groups), wide)
    return image_of(c, y, groups, x.shape[0], counts, w.shape[0])


def _scaled(c, x, w, low, high, counts, strides, wide):
    """convolve() with one tap and one channel a group: a factor for each channel."""
    kind, rank = dtypes.compute(x.dtype), len(counts)
    x = pad_axes(c, x, range(1, rank + 1), low, high)
    x = c.slice(x, [0] * (rank + 2), [x.shape[0], *counts, x.shape[-1]], [1, *strides, 1])
    y = c.mul(c.cast(x, kind), c.cast(c.reshape(w, [w.shape[0]]), kind))
    y = c.permute(y, [0, rank + 1, *range(1, rank + 1)])
    return y if wide else c.cast(y, x.dtype)


def _of_bytes(c, x, w, strides, padding, dilation, groups):
    """The convolution of an image [n, c, d…] and a weight that were bytes, by exact sums; None where it is not one, or of too
    few numbers to be worth a product of bytes."""
    found = quantized.factors(c, x, w)
    if found is None or not all(type(n) is int for n in w.shape):
        return None
    (a, b), (out, channels, *sizes) = found, w.shape
    depth, border, rank = numel(sizes) * channels, a.zero or 0, len(sizes)
    if out // groups < LEAST_RESULTS or not LEAST_DEPTH <= depth <= quantized.DEEPEST:
        return None
    if type(border) is Value:
        if any(padding):
            return None
        border = 0
    image = channels_last(c, a.q)
    counts = out_counts(image, sizes, strides, padding, padding, dilation)
    pixels = numel([image.shape[0], *counts])
    if type(pixels) is int and pixels <= quantized.FEW_ROWS:
        return None

    def windows_of(x, border):
        return rows(c, x, groups, padding, padding, sizes, counts, strides, dilation, border)

    def row_sums():
        """Of the channels of each pixel, then of the pixels of each window."""
        x = c.reshape(c.cast(image, "i32"), [*image.shape[:-1], groups, channels])
        x = windows_of(c.reduce("sum", x, [rank + 2]), border * channels)
        return c.reduce("sum", x, [len(x.shape) - 1], True)

    def placed(v):
        if type(v) is not Value:
            return v
        one = [1] * (2 if groups == 1 else 3)
        return c.reshape(v, one if numel(v.shape) == 1 else [*([groups] if groups > 1 else []), 1, out // groups])

    left = quantized.Quantised(windows_of(image, border), placed(a.scale), placed(a.zero))
    right = quantized.Quantised(columns(c, b.q, groups), placed(b.scale), placed(b.zero))
    y = quantized.scaled_sums(c, left, right, row_sums)
    return image_of(c, y, groups, image.shape[0], counts, out)


def reversed_taps(c, w, groups):
    """A weight [in, out of a group, taps…] for the opposite direction: [out, in of a group, reversed taps…]."""
    rank = len(w.shape) - 2
    into, out, *sizes = w.shape
    w = c.flip(w, list(range(2, rank + 2)))
    w = c.reshape(w, [groups, into // groups, out, *sizes])
    w = c.permute(w, [0, 2, 1, *range(3, rank + 3)])
    return c.reshape(w, [groups * out, into // groups, *sizes])


def transposed(c, x, w, strides, padding, dilation, groups, sizes_out, wide=False):
    """The image [n, c, *sizes_out] whose convolution with w (strides, padding …) has x's shape, by x's pixels."""
    sizes = w.shape[2:]
    known = all(type(n) is int for n in (*x.shape[1:], *w.shape, *sizes_out))
    if known and all(d == 1 for d in dilation) and any(s > 1 for s in strides):
        if all(k <= s for k, s in zip(sizes, strides, strict=True)):
            return _patches(c, x, w, strides, padding, groups, sizes_out, wide)
        kinds = [_kinds_of(k, s, p) for k, s, p in zip(sizes, strides, padding, strict=True)]
        if groups == 1 and all(kinds):
            return _kinds(c, x, w, strides, padding, kinds, sizes_out, wide)
        if numel(strides) <= MOST_PHASES:
            return _phases(c, x, w, strides, padding, groups, sizes_out, wide)
    x = spread(c, channels_last(c, x), range(1, len(sizes) + 1), strides)
    low = [d * (s - 1) - p for d, s, p in zip(dilation, sizes, padding, strict=True)]
    high = [
        out + d * (s - 1) - n - a
        for out, d, s, n, a in zip(sizes_out, dilation, sizes, x.shape[1:-1], low, strict=True)
    ]
    return convolve(c, x, reversed_taps(c, w, groups), [1] * len(sizes), low, high, dilation, groups, wide)


def _patches(c, x, w, strides, padding, groups, sizes_out, wide):
    """transposed() where windows do not overlap: every pixel of x gives a patch of its own, by one product."""
    rank, sizes = len(strides), w.shape[2:]
    batch, into, *counts = x.shape
    out = w.shape[1]
    pixels, taps = numel([batch, *counts]), numel(sizes)
    w = c.permute(w, [0, *range(2, rank + 2), 1])
    x = channels_last(c, x)
    if groups == 1:
        y = c.dot(c.reshape(x, [pixels, into]), c.reshape(w, [into, taps * out]), wide)
    else:
        x = c.reshape(x, [pixels, groups, into // groups])
        w = c.reshape(w, [groups, into // groups, taps * out])
        y = c.dot(c.permute(x, [1, 0, 2]), w, wide)
    y = c.reshape(y, [groups, batch, *counts, *sizes, out])
    order = [1, 0, 2 * rank + 2]
    for axis in range(rank):
        order += [axis + 2, axis + 2 + rank]
    y = c.permute(y, order)  # [n, groups, results, count, size, count, size, …]
    shape = list(y.shape)
    for axis in range(rank):
        shape[4 + 2 * axis] = strides[axis]
    y = c.pad(y, [0] * len(shape), shape, 0)
    spans = [n * s for n, s in zip(counts, strides, strict=True)]
    y = c.reshape(y, [batch, groups * out, *spans])
    high = [n - m + p for n, m, p in zip(sizes_out, spans, padding, strict=True)]
    return pad_axes(c, y, range(2, rank + 2), [-p for p in padding], high)


def _kinds_of(size, stride, padding):
    """Along one axis of transposed(): the pixels whose coordinates leave remainders a = shift * kinds + kind by the
    stride read as many pixels of x each, from `shift` on. (shifts, kinds), or None where that does not hold."""
    rest = padding % stride
    if size % stride == 0 and rest == 0:
        return 1, stride
    return (2, rest) if size % stride == 0 and 2 * rest == stride else None


def _kinds(c, x, w, strides, padding, kinds, sizes_out, wide):
    """transposed() where all kinds of pixels have as many taps: one product with a batch of shifts, whose rows are
    windows and whose columns are the kinds that read them, with their results."""
    rank, (into, out, *sizes) = len(strides), w.shape
    axes, ones = list(range(1, rank + 1)), [1] * rank
    shifts, shared = (list(n) for n in zip(*kinds, strict=True))
    kept = [k // s for k, s in zip(sizes, strides, strict=True)]
    counts = [-(-n // s) for n, s in zip(sizes_out, strides, strict=True)]
    low = [k - 1 - p // s for k, p, s in zip(kept, padding, strides, strict=True)]
    spans = [n + u - 1 for n, u in zip(counts, shifts, strict=True)]
    high = [n + k - 1 - m - a for n, k, m, a in zip(spans, kept, x.shape[2:], low, strict=True)]
    batch = x.shape[0]
    x = pad_axes(c, channels_last(c, x), axes, low, high)
    x = windows(c, x, axes, kept, spans, ones, ones)
    x = windows(c, x, axes, shifts, counts, ones, ones)
    first = rank + 2  # [n, counts…, channels, kept…, shifts…]
    taps, moved = list(range(first, first + rank)), list(range(first + rank, first + 2 * rank))
    x = c.permute(x, [*moved, 0, *axes, *taps, rank + 1])
    lead = [] if numel(shifts) == 1 else [numel(shifts)]
    left = c.reshape(x, [*lead, numel([batch, *counts]), numel(kept) * into])
    w = c.reshape(w, [into, out, *(n for three in zip(kept, shifts, shared, strict=True) for n in three)])
    taps, moved, kind = (list(range(2 + i, 2 + 3 * rank, 3)) for i in range(3))
    w = c.permute(c.flip(w, [*taps, *moved]), [*moved, *taps, 0, *kind, 1])
    right = c.reshape(w, [*lead, numel(kept) * into, numel(shared) * out])
    y = c.reshape(c.dot(left, right, wide), [*shifts, batch, *counts, *shared, out])
    order = [rank, 3 * rank + 1]  # → [n, results, count, shift, kind, count, …]
    for axis in range(rank):
        order += [rank + 1 + axis, axis, 2 * rank + 1 + axis]
    y = c.reshape(c.permute(y, order), [batch, out, *(n * s for n, s in zip(counts, strides, strict=True))])
    return c.slice(y, [0] * (rank + 2), [batch, out, *sizes_out])


def _phases(c, x, w, strides, padding, groups, sizes_out, wide):
    """transposed() without the products with zeros: the pixels whose coordinates leave the same remainders by the
    strides need the same taps, so each of these phases is a convolution of its own with stride 1."""
    rank, sizes = len(strides), w.shape[2:]
    axes = list(range(2, rank + 2))
    x = channels_last(c, x)
    counts = x.shape[1:-1]
    largest = [-(-n // s) for n, s in zip(sizes_out, strides, strict=True)]
    phases = []
    for phase in itertools.product(*(range(s) for s in strides)):
        taps = [(a + p) % s for a, p, s in zip(phase, padding, strides, strict=True)]  # the first one of each axis
        kept = [-(-(k - t) // s) for k, t, s in zip(sizes, taps, strides, strict=True)]
        number = [-(-(n - a) // s) for n, a, s in zip(sizes_out, phase, strides, strict=True)]
        if min(kept) <= 0 or min(number) <= 0:
            shape = [x.shape[0], w.shape[1] * groups, *largest]
            phases.append(c.number(dtypes.compute(x.dtype) if wide else x.dtype, 0, shape))
            continue
        part = c.slice(w, [0, 0, *taps], [*w.shape[:2], *kept], [1, 1, *strides])
        # Pixel t of the phase is coordinate stride * q + tap - padding, where q = t + first.
        first = [(a + p - t) // s for a, p, t, s in zip(phase, padding, taps, strides, strict=True)]
        low = [k - 1 - q for k, q in zip(kept, first, strict=True)]
        high = [n - m - a + k - 1 for n, m, a, k in zip(number, counts, low, kept, strict=True)]
        y = convolve(c, x, reversed_taps(c, part, groups), [1] * rank, low, high, [1] * rank, groups, wide)
        missing = [m - n for m, n in zip(largest, number, strict=True)]
        phases.append(pad_axes(c, y, axes, [0] * rank, missing))
    # Interleaved: [n, c, phases…, pixels…] → [n, c, pixel, phase, pixel, phase, …].
    y = c.concat([c.unsqueeze(y, 2) for y in phases], 2)
    y = c.reshape(y, [*y.shape[:2], *strides, *largest])
    order = [0, 1]
    for axis in range(rank):
        order += [axis + 2 + rank, axis + 2]
    y = c.permute(y, order)
    y = c.reshape(y, [*y.shape[:2], *(m * s for m, s in zip(largest, strides, strict=True))])
    return c.slice(y, [0] * (rank + 2), [*y.shape[:2], *sizes_out])


def _usable(x, w):
    if x.dtype != w.dtype or x.dtype == "b8":
        raise Unsupported("convolution of two dtypes")
    if any(type(n) is int and n == 0 for n in (*x.shape, *w.shape)):
        raise Unsupported("convolution without elements")


@lower("convolution.default")
def convolution(c, x, w, bias, stride, padding, dilation, is_transposed, output_padding, groups):
    _usable(x, w)
    rank = len(w.shape) - 2
    stride, padding, dilation = (per_axis(v, rank) for v in (stride, padding, dilation))
    shape = x.shape
    unbatched = len(shape) == rank + 1
    if unbatched:
        x = c.reshape(x, [1, *shape])
    wide = bias is not None  # one operator: it rounds once
    if is_transposed:
        sizes_out = c.out_shape[-rank:]
        y = transposed(c, x, w, stride, padding, dilation, groups, sizes_out, wide)
    else:
        y = _of_bytes(c, x, w, stride, padding, dilation, groups)
        if y is None:
            y = convolve(c, channels_last(c, x), w, stride, padding, padding, dilation, groups, wide)
    if bias is not None:
        y = c.add(y, c.cast(c.reshape(bias, [1, bias.shape[0], *[1] * rank]), y.dtype))
        y = c.cast(y, x.dtype)
    return c.reshape(y, y.shape[1:]) if unbatched else y


@lower("convolution_backward.default")
def convolution_backward(c, grad, x, w, bias_sizes, stride, padding, dilation, is_transposed, output_padding, groups,
                         output_mask):  # fmt: skip
    _usable(x, w)
    rank = len(w.shape) - 2
    if len(x.shape) != rank + 2:
        raise Unsupported("gradient of a convolution without a batch")
    stride, padding, dilation = (per_axis(v, rank) for v in (stride, padding, dilation))
    to_x = to_w = to_bias = None
    if output_mask[0] and is_transposed:
        to_x = convolve(c, channels_last(c, grad), w, stride, padding, padding, dilation, groups)
        to_x = c.slice(to_x, [0] * (rank + 2), x.shape)
    elif output_mask[0]:
        to_x = transposed(c, grad, w, stride, padding, dilation, groups, x.shape[2:])
    if output_mask[1]:
        few, many = (x, grad) if is_transposed else (grad, x)
        to_w = _weight_gradient(c, few, many, w.shape, stride, padding, dilation, groups)
    if output_mask[2]:
        to_bias = c.reduce("sum", grad, [0, *range(2, rank + 2)])
    return to_x, to_w, to_bias


def _weight_gradient(c, grad, x, shape, stride, padding, dilation, groups):
    rank = len(shape) - 2
    out, channels, *sizes = shape
    counts = grad.shape[2:]
    if groups > 1 and out // groups <= MOST_IN_GROUP and numel(sizes) * channels <= MOST_DEPTH:
        block = _block_of(counts) if all(type(n) is int for n in x.shape) else 0
        if block:
            return _block_sums(c, grad, x, shape, block, stride, padding, dilation, groups)
    if channels == 1 and out == groups and numel(sizes) <= MOST_SUMS:
        return _tap_sums(c, grad, x, sizes, stride, padding, dilation)
    right = rows(c, channels_last(c, x), groups, padding, padding, sizes, counts, stride, dilation)
    pixels = numel([grad.shape[0], *counts])
    grad = c.reshape(grad, [grad.shape[0], groups, out // groups, *counts])
    left = c.reshape(c.permute(grad, [1, 2, 0, *range(3, rank + 3)]), [groups, out // groups, pixels])
    if groups == 1:
        left = c.reshape(left, [out, pixels])
    y = c.reshape(c.dot(left, right), [out, *sizes, channels])
    return c.permute(y, [0, rank + 1, *range(1, rank + 1)])


def _block_of(counts):
    """Pixels of whole lines of the last axis that are summed in one chain; 0 if a line has too many."""
    height, width = ([1] * 2 + list(counts))[-2:]
    most = MOST_PIXELS // width
    return width * max((n for n in range(1, min(most, height) + 1) if height % n == 0), default=0)


def _block_sums(c, grad, x, shape, block, stride, padding, dilation, groups):
    """The gradient of a weight with few results a group: products of blocks of pixels, which run in parallel along the
    channels of all groups, then their sum."""
    rank, counts = len(shape) - 2, grad.shape[2:]
    out, channels, *sizes = shape
    right = rows(c, channels_last(c, x), groups, padding, padding, sizes, counts, stride, dilation)
    blocks = numel([grad.shape[0], *counts]) // block
    right = c.reshape(right, [groups, blocks, block, numel(sizes) * channels])
    left = c.reshape(channels_last(c, grad), [blocks, block, groups, out // groups])
    left = c.permute(left, [2, 0, 3, 1])
    y = c.dot(left, right, wide=True)
    y = c.reshape(c.cast(c.reduce("sum", y, [1]), x.dtype), [out, *sizes, channels])
    return c.permute(y, [0, rank + 1, *range(1, rank + 1)])


def _tap_sums(c, grad, x, sizes, stride, padding, dilation):
    """The gradient of a depthwise weight: for every tap the sum over the pixels."""
    rank, wide = len(sizes), dtypes.compute(grad.dtype)
    shape, counts, axes = list(x.shape), grad.shape[2:], list(range(2, len(sizes) + 2))
    grad, sums = c.cast(grad, wide), []
    span = [s * (n - 1) + 1 for s, n in zip(stride, counts, strict=True)]
    for place in itertools.product(*(range(size) for size in sizes)):
        low = [p - k * d for p, k, d in zip(padding, place, dilation, strict=True)]
        high = [m - n - a for m, n, a in zip(span, shape[2:], low, strict=True)]
        tap = c.slice(pad_axes(c, x, axes, low, high), [0] * (rank + 2), [*shape[:2], *counts], [1, 1, *stride])
        sums.append(c.unsqueeze(c.reduce("sum", c.mul(c.cast(tap, wide), grad), [0, *axes]), 1))
    return c.cast(c.reshape(c.concat(sums, 1), [shape[1], 1, *sizes]), x.dtype)
