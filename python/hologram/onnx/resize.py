# hologram/onnx/resize.py: images of another size
# mypy: ignore-errors
"""Axis by axis: each result is a weighted sum of neighbours, whose places and weights are computed while tracing."""

import math

import numpy as np

from hologram.onnx.call import numbers
from hologram.onnx.table import operator


@operator("Resize", known=(1, 2, 3))
def resize(call, x, roi=None, scales=None, sizes=None):
    if call.version < 11:
        roi, scales = None, roi
    x = call.lift(x)
    rank = len(x.shape)
    axes = [a % rank for a in call.attr("axes", list(range(rank)))]
    factors, wanted = [1.0] * rank, list(x.shape)
    if sizes is not None and sizes.size:
        wanted, factors = _by_sizes(call, x, axes, numbers(sizes))
    else:
        for axis, factor in zip(axes, scales.reshape(-1)):
            factors[axis] = float(factor)
            if factor != 1:
                wanted[axis] = _scaled(x.shape[axis], float(factor))
    corners = [0.0] * rank + [1.0] * rank
    if roi is not None and roi.size:
        for i, axis in enumerate(axes):
            corners[axis], corners[rank + axis] = float(roi[i]), float(roi[len(axes) + i])
    return _resized(call, x, wanted, factors, corners)


def _scaled(n, factor):
    if not isinstance(n, int):
        return n * int(factor) if factor == int(factor) else _scaled(int(n), factor)
    return int(np.float32(n) * np.float32(factor))  # as the standard's own shapes: 10 by 2.3 are 23


def _by_sizes(call, x, axes, sizes):
    rank, policy = len(x.shape), call.attr("keep_aspect_ratio_policy", "stretch")
    wanted, factors = list(x.shape), [1.0] * rank
    ratios = [int(n) / int(x.shape[a]) for a, n in zip(axes, sizes)]
    if policy != "stretch":
        one = min(ratios) if policy == "not_larger" else max(ratios)
        for a in axes:
            factors[a], wanted[a] = one, int(one * int(x.shape[a]) + 0.5)
        return wanted, factors
    for a, n, ratio in zip(axes, sizes, ratios):
        wanted[a], factors[a] = n, ratio
    return wanted, factors


@operator("Upsample", known=(1,))
def upsample(call, x, scales=None):
    factors = call.attr("scales") if scales is None else [float(f) for f in scales]
    x = call.lift(x)
    wanted = [n if f == 1 else _scaled(n, f) for n, f in zip(x.shape, factors)]
    rank = len(factors)
    return _resized(call, x, wanted, list(factors), [0.0] * rank + [1.0] * rank, "asymmetric")


def _resized(call, x, wanted, factors, corners, transformation=None):
    b = call.b
    mode = call.attr("mode", "nearest")
    transformation = transformation or call.attr("coordinate_transformation_mode", "half_pixel" if call.version > 10 else "asymmetric")
    node, out_dtype, outside = x.value, x.value.dtype, None
    rank = len(factors)
    same = mode == "nearest" and [*wanted] == [*x.shape]  # which ONNX Runtime copies
    for axis in range(rank):
        n, count, factor = x.shape[axis], wanted[axis], factors[axis]
        crop = transformation == "tf_crop_and_resize"
        if (factor == 1 or same) and not crop:
            continue
        how = call.attr("nearest_mode", "round_prefer_floor" if call.version > 10 else "floor" if factor > 1 else "ceil")
        if mode == "nearest" and transformation in ("asymmetric", "half_pixel", "pytorch_half_pixel") and factor == int(factor) > 1 and (
            how in (("floor",) if transformation == "asymmetric" else
                                                                ("round_prefer_floor", "round_prefer_ceil"))
        ):  # fmt: skip
            node = _repeated(b, node, axis, int(factor))
            continue
        n, count = int(n), int(count)
        length = n * factor if transformation == "align_corners" and mode != "nearest" else count  # as the standard's own cases have it
        at = _places(n, count, factor, transformation, corners[axis], corners[rank + axis], length).astype(np.float64)
        if crop:
            far = (at < 0) | (at > n - 1)
            if far.any():
                mask = call.value(far.reshape([count if i == axis else 1 for i in range(rank)]))
                outside = mask if outside is None else b.ew("bit_or", outside, mask)
        places, weights = _taps(call, at, n, factor, mode, how)
        node = _summed(call, node, axis, places, weights)
    if outside is not None:
        node = b.where(b.broadcast(outside, node.shape), b.number(node.dtype, call.attr("extrapolation_value", 0.0)), node)
    if out_dtype[0] in "iu" and node.dtype != out_dtype:
        node = b.ew("round", node) if mode == "nearest" else node
    return b.cast(node, out_dtype)


def _repeated(b, x, axis, factor):
    """Every element so many times along an axis, which may be of open size."""
    shape = list(x.shape)
    x = b.broadcast(b.unsqueeze(x, axis + 1), [*shape[: axis + 1], factor, *shape[axis + 1 :]])
    shape[axis] = shape[axis] * factor
    return b.reshape(x, shape)


def _places(n, count, factor, transformation, low, high, length):
    """Where in the operand each result lies: in float32, as ONNX Runtime has it, which decides between neighbours as near."""
    f = np.float32
    i, factor, low, high, length, last = np.arange(count, dtype=f), f(factor), f(low), f(high), f(length), f(n - 1)
    if transformation == "align_corners":
        return np.zeros(count) if length == 1 else i * last / (length - f(1))
    if transformation == "asymmetric":
        return i / factor
    if transformation == "tf_crop_and_resize":
        if length == 1:
            return np.full(count, f(0.5) * (low + high) * last)
        return low * last + i * (high - low) * last / (length - f(1))
    if transformation == "pytorch_half_pixel":
        return np.full(count, -0.5) if length == 1 else (i + f(0.5)) / factor - f(0.5)
    if transformation == "half_pixel":
        return (i + f(0.5)) / factor - f(0.5)
    if transformation == "half_pixel_symmetric":
        offset = f(n / 2) * (f(1) - f(count) / (factor * f(n)))
        return (offset + (i.astype(np.float64) + 0.5) / factor.astype(np.float64) - 0.5).astype(f)
    if transformation == "tf_half_pixel_for_nn":
        return (i + f(0.5)) / factor
    raise NotImplementedError(f"from_onnx: Resize: transformation {transformation!r} is not supported")


def _taps(call, at, n, factor, mode, how):
    """(places, weights) [results, taps]; weights None for one tap."""
    if mode == "nearest":  # what is a millionth from the middle is there, as ONNX Runtime has it
        rounded = {
            "round_prefer_floor": lambda: np.ceil(at - 0.500001), "round_prefer_ceil": lambda: np.floor(at + 0.500001),
            "floor": lambda: np.floor(at), "ceil": lambda: np.ceil(at),
        }[how]()  # fmt: skip
        return np.clip(rounded, 0, n - 1).astype(np.int64)[:, None], None
    base = np.ceil(at) - 1  # the pixel on the left of the place
    ratio = at - base
    shrunk = min(factor, 1.0) if call.attr("antialias", 0) else 1.0
    if mode == "linear":
        start = int(math.floor(-1 / shrunk) + 1)
        offsets = np.arange(start, start + 2 - 2 * start)
        weights = np.clip(1 - np.abs((offsets[None, :] - ratio[:, None]) * shrunk), 0, 1)
    else:
        start = int(math.floor(-2 / shrunk) + 1)
        offsets = np.arange(start, start + 2 - 2 * start)
        weights = _cubic(np.abs((offsets[None, :] - ratio[:, None]) * shrunk), call.attr("cubic_coeff_a", -0.75))
    places = base[:, None] + offsets[None, :]
    if call.attr("exclude_outside", 0):
        weights = np.where((places < 0) | (places >= n), 0, weights)
    if shrunk != 1 or call.attr("exclude_outside", 0):
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, n - 1).astype(np.int64), weights


def _cubic(x, a):
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _summed(call, x, axis, places, weights):
    b = call.b
    if weights is None:
        return b.take(x, call.value(places[:, 0]), axis)
    kind = "f64" if x.dtype == "f64" else "f32"
    x, total = b.cast(x, kind), None
    along = [len(places) if i == axis else 1 for i in range(len(x.shape))]
    for k in range(places.shape[1]):
        if not weights[:, k].any() and len(places):
            continue
        factor = call.value(weights[:, k].reshape(along).astype(np.float64 if kind == "f64" else np.float32))
        part = b.ew("mul", b.take(x, call.value(np.ascontiguousarray(places[:, k])), axis), factor)
        total = part if total is None else b.add(total, part)
    return total
