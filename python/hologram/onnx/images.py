# hologram/onnx/images.py: sampling of images at places between pixels
# mypy: ignore-errors
import itertools

import numpy as np

from hologram._graph import numel
from hologram.onnx.call import numbers, plain
from hologram.onnx.table import operator


def sample_bilinear(b, image, y, x, height, width):
    """image [n, c, height * width] at places [n, p] in pixels, 0 outside, as [n, c, p]."""
    low_y, low_x = b.ew("floor", y), b.ew("floor", x)
    part_y, part_x = b.sub(y, low_y), b.sub(x, low_x)
    total = None
    for dy, dx in itertools.product((0, 1), repeat=2):
        weight = b.mul(_share(b, part_y, dy), _share(b, part_x, dx))
        tap = _taken(b, image, [b.add(low_y, dy), b.add(low_x, dx)], [height, width], weight)
        total = tap if total is None else b.add(total, tap)
    return total


def _share(b, part, upper):
    return part if upper else b.sub(b.number(part.dtype, 1), part)


def _taken(b, image, places, sizes, weight):
    """Weighted pixels at whole places [n, p], 0 outside."""
    flat, inside = None, None
    for at, n in zip(places, sizes):
        ok = b.both(b.le(b.number(at.dtype, 0), at), b.le(at, b.scalar(n - 1, at.dtype)))
        inside = ok if inside is None else b.both(inside, ok)
        here = b.cast(b.ew("min", b.ew("max", at, 0), b.scalar(n - 1, at.dtype)), "i64")
        flat = here if flat is None else b.add(b.mul(flat, b.scalar(n, "i64")), here)
    weight = b.where(inside, weight, b.number(weight.dtype, 0))
    return b.mul(_pixels(b, image, flat), b.cast(b.unsqueeze(weight, 1), image.dtype))


def _pixels(b, image, flat):
    """image [n, c, pixels] at [n, p] as [n, c, p]."""
    columns = b.take(b.permute(image, [0, 2, 1]), flat, 1, batch=1)
    return b.permute(columns, [0, 2, 1])


@operator("GridSample")
def grid_sample(call, x, grid):
    b = call.b
    x, grid = call.values(x, grid)
    out_dtype = x.dtype
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(call.attr("mode", "linear"), call.attr("mode", "linear"))
    corners, padding = call.attr("align_corners", 0), call.attr("padding_mode", "zeros")
    n, channels, *sizes = x.shape
    rank, counts = len(sizes), grid.shape[1:-1]
    kind = "f64" if x.dtype == "f64" or grid.dtype == "f64" else "f32"
    x, grid = b.cast(x, kind), b.cast(grid, kind)
    points = numel(counts)
    places = []
    for axis, size in enumerate(sizes):
        at = b.reshape(b.select_axis(grid, rank + 1, rank - 1 - axis), [n, points])
        last = b.scalar(size - 1, kind)
        if corners:
            places.append(b.mul(b.add(at, 1), b.mul(last, 0.5)))
        else:
            places.append(b.mul(b.sub(b.mul(b.add(at, 1), b.scalar(size, kind)), 1), 0.5))
    image = b.reshape(x, [n, channels, numel(sizes)])
    ends = [(b.scalar(0, kind), b.scalar(s - 1, kind)) if corners else (b.number(kind, -0.5), b.sub(b.scalar(s, kind), 0.5)) for s in sizes]
    if mode != "cubic":
        places = [_kept(b, at, s, e, padding, kind) for at, s, e in zip(places, sizes, ends)]
    if mode == "nearest":
        taps = [[(b.ew("round", at), None)] for at in places]
    elif mode == "linear":
        taps = []
        for at in places:
            low = b.ew("floor", at)
            part = b.sub(at, low)
            taps.append([(b.add(low, d), _share(b, part, d)) for d in (0, 1)])
    else:
        taps = []
        for at in places:
            low = b.ew("floor", at)
            part = b.sub(at, low)
            taps.append([(b.add(low, d), _cubic(b, b.ew("abs", b.sub(b.number(kind, d), part)))) for d in (-1, 0, 1, 2)])
    total = None
    for chosen in itertools.product(*taps):
        weight = b.number(kind, 1, [n, points])
        for _, share in chosen:
            weight = weight if share is None else b.mul(weight, share)
        at = [place if padding == "zeros" else _kept(b, place, s, e, padding, kind) for (place, _), s, e in zip(chosen, sizes, ends)]
        at = [b.ew("round", place) for place in at]
        tap = _taken(b, image, at, sizes, weight)
        total = tap if total is None else b.add(total, tap)
    return b.cast(b.reshape(total, [n, channels, *counts]), out_dtype)


def _kept(b, at, size, ends, padding, kind):
    """Places within the image, by the border or reflected in its ends."""
    last = b.scalar(size - 1, kind)
    if padding == "border":
        return b.ew("min", b.ew("max", at, 0), b.broadcast(last, at.shape))
    if padding == "reflection":
        low, high = (b.broadcast(v, at.shape) for v in ends)
        span = b.sub(high, low)
        off = b.ew("abs", b.sub(at, low))
        turned = b.ew("rem", off, b.mul(span, 2))
        back = b.sub(b.mul(span, 2), turned)
        return b.add(low, b.where(b.le(turned, span), turned, back))
    return at


def _cubic(b, x, a=-0.75):
    near = b.add(b.mul(b.mul(b.add(b.mul(x, a + 2), -(a + 3)), x), x), 1)
    far = b.add(b.mul(b.add(b.mul(b.add(b.mul(x, a), -5 * a), x), 8 * a), x), -4 * a)
    return b.where(b.le(x, 1), near, far)


@operator("AffineGrid", since=20, known=(1,))
def affine_grid(call, theta, size):
    """Each place of a grid, from -1 to 1 along every axis, as theta moves it."""
    b, theta = call.b, call.value(theta)
    out_dtype, (batch, _, *sizes) = theta.dtype, numbers(size)
    rank, kind = len(sizes), "f64" if theta.dtype == "f64" else "f32"
    if rank not in (2, 3) or len(theta.shape) != 3 or list(theta.shape[1:]) != [rank, rank + 1] or batch != call.tracer.dim(theta.shape[0]):
        raise ValueError(f"theta of the shape {theta.shape} for {rank + 2} sizes")
    theta, total = b.cast(theta, kind), None
    for column, n in enumerate([*reversed(plain(sizes)), None]):
        part = b.reshape(b.select_axis(theta, 2, column), [theta.shape[0], *[1] * rank, rank])
        if n is not None:
            axis = rank - column
            at = b.cast(b.iota("i64", [n if a == axis else 1 for a in range(rank + 2)], axis), kind)
            if call.attr("align_corners", 0):
                step = b.div(b.number(kind, 2), b.ew("max", b.scalar(n - 1, kind), 1))
            else:
                step, at = b.div(b.number(kind, 2), b.scalar(n, kind)), b.add(at, 0.5)
            part = b.mul(part, b.sub(b.mul(at, step), 1))
        total = part if total is None else b.add(total, part)
    return b.cast(total, out_dtype)


@operator("RoiAlign", host=True)
def roi_align(call, x, rois, batch):
    height, width = call.attr("output_height", 1), call.attr("output_width", 1)
    ratio, scale = call.attr("sampling_ratio", 0), call.attr("spatial_scale", 1.0)
    half = 0.5 if call.attr("coordinate_transformation_mode", "half_pixel" if call.version >= 16 else "") == "half_pixel" else 0.0
    out = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    for r, roi in enumerate(rois):
        x1, y1, x2, y2 = (float(v) * scale - half for v in roi)
        w, h = x2 - x1, y2 - y1
        if not half:
            w, h = max(w, 1.0), max(h, 1.0)
        rows = ratio if ratio > 0 else int(np.ceil(h / height))
        columns = ratio if ratio > 0 else int(np.ceil(w / width))
        ys = y1 + (np.arange(height)[:, None] + (np.arange(rows) + 0.5) / rows) * h / height
        xs = x1 + (np.arange(width)[:, None] + (np.arange(columns) + 0.5) / columns) * w / width
        taps = _roi_taps(x[batch[r]], ys.reshape(-1), xs.reshape(-1))
        if call.attr("mode", "avg") == "max":
            parts = np.stack([t for t in taps]).max(0)
        else:
            parts = sum(taps)
        parts = parts.reshape(-1, height, rows, width, columns)
        out[r] = parts.max((2, 4)) if call.attr("mode", "avg") == "max" else parts.sum((2, 4)) / max(rows * columns, 1)
    return out


def _roi_taps(image, ys, xs):
    """The four weighted pixels around each place of a grid, 0 beyond the image by more than a pixel."""
    height, width = image.shape[1:]
    inside = ((ys >= -1) & (ys <= height))[:, None] & ((xs >= -1) & (xs <= width))[None, :]

    def line(at, n):
        at = np.maximum(at, 0)
        low = np.minimum(at.astype(np.int64), n - 1)
        high = np.minimum(low + 1, n - 1)
        at = np.where(low >= n - 1, low.astype(at.dtype), at)
        return low, high, at - low

    low_y, high_y, part_y = line(ys, height)
    low_x, high_x, part_x = line(xs, width)
    taps = []
    for places_y, share_y in ((low_y, 1 - part_y), (high_y, part_y)):
        for places_x, share_x in ((low_x, 1 - part_x), (high_x, part_x)):
            weight = np.where(inside, share_y[:, None] * share_x[None, :], 0)
            taps.append(image[:, places_y[:, None], places_x[None, :]] * weight)
    return taps
