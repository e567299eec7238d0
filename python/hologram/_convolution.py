# hologram/_convolution.py: convolutions as products over windows
# mypy: disable-error-code="no-untyped-def,no-untyped-call"
"""A convolution is a product: rows are pixels of the result, columns its channels, and the depth runs over the taps
and the channels of the image, channels fastest. `window` makes the left operand without copying, so that strides,
dilation, padding and groups are index arithmetic. A transposed convolution, or the gradient of the image, is the same
product over the image with zeros between its pixels and the taps reversed."""

import itertools

from hologram import _core
from hologram._graph import Unsupported, compute, numel

FEW_CHANNELS = 4  # of a pixel whose bytes are fewer than what is done for each pixel
MOST_PHASES = 16  # products that share out the pixels of a strided convolution's image
FEW_RESULTS = 4  # of a pixel, far fewer than a product computes together
MOST_TAPS = 64  # of their windows


def per_axis(values, rank):
    """One number an axis from lists whose single element counts for all axes."""
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
    kind, rank = compute(x.dtype), len(counts)
    x = pad_axes(c, x, range(1, rank + 1), low, high)
    x = c.slice(x, [0] * (rank + 2), [x.shape[0], *counts, x.shape[-1]], [1, *strides, 1])
    y = c.mul(c.cast(x, kind), c.cast(c.reshape(w, [w.shape[0]]), kind))
    y = c.permute(y, [0, rank + 1, *range(1, rank + 1)])
    return y if wide else c.cast(y, x.dtype)


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
        if groups == 1 and w.shape[1] <= FEW_RESULTS and numel(sizes) * w.shape[1] <= FEW_RESULTS * MOST_TAPS:
            return _summed_patches(c, x, w, strides, padding, sizes_out, wide)
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


def _summed_patches(c, x, w, strides, padding, sizes_out, wide):
    """transposed() where a pixel has fewer results than a product computes together (the gradient of an image of three
    colours): one product gives every pixel of x its patch, plane by plane, and each result is the sum of the patches that
    overlap there."""
    rank, (into, out, *sizes) = len(strides), w.shape
    batch, counts = x.shape[0], x.shape[2:]
    left = c.reshape(c.permute(w, [*range(1, rank + 2), 0]), [out * numel(sizes), into])
    right = c.reshape(c.permute(x, [1, 0, *range(2, rank + 2)]), [into, numel([batch, *counts])])
    patches = c.reshape(c.dot(left, right, wide=True), [out, *sizes, batch, *counts])
    shape = [out, batch, *counts]

    def phase(taps, kept, first, number):
        total = None
        for tap in itertools.product(*(range(n) for n in kept)):
            place = [t + s * n for t, s, n in zip(taps, strides, tap, strict=True)]
            part = c.slice(patches, [0, *place, *[0] * (rank + 1)], [out, *[1] * rank, *shape[1:]])
            start = [q - n for q, n in zip(first, tap, strict=True)]
            after = [n + a - m for n, a, m in zip(number, start, counts, strict=True)]
            part = pad_axes(c, c.reshape(part, shape), range(2, rank + 2), [-a for a in start], after)
            total = part if total is None else c.add(total, part)
        return c.permute(total, [1, 0, *range(2, rank + 2)])

    y = _by_phases(c, x, sizes, strides, padding, sizes_out, out, patches.dtype, phase)
    return y if wide else c.cast(y, x.dtype)


def _phases(c, x, w, strides, padding, groups, sizes_out, wide):
    """transposed() without the products with zeros: the pixels whose coordinates leave the same remainders by the
    strides need the same taps, so each of these phases is a convolution of its own with stride 1."""
    rank, sizes, last = len(strides), w.shape[2:], channels_last(c, x)

    def phase(taps, kept, first, number):
        part = c.slice(w, [0, 0, *taps], [*w.shape[:2], *kept], [1, 1, *strides])
        low = [k - 1 - q for k, q in zip(kept, first, strict=True)]
        high = [n - m - a + k - 1 for n, m, a, k in zip(number, x.shape[2:], low, kept, strict=True)]
        return convolve(c, last, reversed_taps(c, part, groups), [1] * rank, low, high, [1] * rank, groups, wide)

    dtype = compute(x.dtype) if wide else x.dtype
    return _by_phases(c, x, sizes, strides, padding, sizes_out, w.shape[1] * groups, dtype, phase)


def _by_phases(c, x, sizes, strides, padding, sizes_out, out, dtype, compute_phase):
    """An image [n, out, *sizes_out] of phases: pixel t of one reads pixel t + first - n of x by tap taps + n * strides,
    n < kept; compute_phase gives its pixels [n, out, *number]."""
    rank = len(strides)
    axes = list(range(2, rank + 2))
    largest = [-(-n // s) for n, s in zip(sizes_out, strides, strict=True)]
    phases = []
    for phase in itertools.product(*(range(s) for s in strides)):
        taps = [(a + p) % s for a, p, s in zip(phase, padding, strides, strict=True)]  # the first one of each axis
        kept = [-(-(k - t) // s) for k, t, s in zip(sizes, taps, strides, strict=True)]
        number = [-(-(n - a) // s) for n, a, s in zip(sizes_out, phase, strides, strict=True)]
        if min(kept) <= 0 or min(number) <= 0:
            phases.append(c.number(dtype, 0, [x.shape[0], out, *largest]))
            continue
        # Pixel t of the phase is coordinate stride * q + tap - padding, where q = t + first.
        first = [(a + p - t) // s for a, p, t, s in zip(phase, padding, taps, strides, strict=True)]
        y = compute_phase(taps, kept, first, number)
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
