# hologram_torch/lowering/norms.py: layer, group, batch and RMS normalisation
from ..graph import dtypes
from ..graph.builder import numel
from . import Unsupported, lower
from .reductions import moments


def _normalised(c, x, axes, eps):
    """(x - mean) * rstd over `axes`, with mean and rstd (axes kept as 1)."""
    center, squares = moments(c, x, axes)
    spread = c.div(squares, c.size_value(c.count(x, axes), x.dtype))
    scale = c.ew("rsqrt", c.add(spread, float(eps)))
    return c.mul(c.sub(x, center), scale), center, scale


def _affine(c, x, weight, bias):
    if weight is not None:
        x = c.mul(x, c.cast(weight, x.dtype))
    return x if bias is None else c.add(x, c.cast(bias, x.dtype))


def _finish(c, *values):
    return tuple(
        c.cast(c.reshape(v, shape), name)
        for v, shape, name in zip(values, c.out_shapes, c.out_dtypes, strict=True)
    )


@lower("native_layer_norm.default")
def layer_norm(c, x, normalized_shape, weight, bias, eps):
    rank = len(x.shape)
    axes = list(range(rank - len(normalized_shape), rank))
    y, center, scale = _normalised(c, c.cast(x, dtypes.compute(x.dtype)), axes, eps)
    if any(n == 0 for n in normalized_shape if type(n) is int):  # the mean of nothing is 0 here, its deviation is not a number
        center = c.number(center.dtype, 0, center.shape)
    return _finish(c, _affine(c, y, weight, bias), center, scale)


@lower("native_group_norm.default")
def group_norm(c, x, weight, bias, n, channels, hxw, group, eps):
    shape = x.shape
    if c.hint(numel(shape)) == 0:
        if n != 0:
            raise Unsupported("empty input")
        return tuple(c.number(name, 0, of) for name, of in zip(c.out_dtypes, c.out_shapes, strict=True))
    wide = c.cast(x, dtypes.compute(x.dtype))
    grouped = c.reshape(wide, [n, group, channels // group, hxw])
    y, center, scale = _normalised(c, grouped, [2, 3], eps)
    y = c.reshape(y, shape)
    by_channel = [channels] + [1] * (len(shape) - 2)
    weight, bias = (None if v is None else c.reshape(v, by_channel) for v in (weight, bias))
    return _finish(c, _affine(c, y, weight, bias), center, scale)


@lower("_fused_rms_norm.default", "rms_norm.default")
def rms_norm(c, x, normalized_shape, weight=None, eps=None):
    rank = len(x.shape)
    axes = list(range(rank - len(normalized_shape), rank))
    wide = c.cast(x, dtypes.compute(x.dtype))
    if eps is None:
        eps = {"f64": 2.220446049250313e-16}.get(wide.dtype, 1.1920928955078125e-07)
    scale = c.ew("rsqrt", c.add(c.mean(c.mul(wide, wide), axes, True), float(eps)))
    y = _affine(c, c.mul(wide, scale), weight, None)
    return _finish(c, y, scale) if len(c.out_shapes) == 2 else c.cast(y, c.out_dtype)


# --- batch norm
def _channels(c, v, x):
    return c.reshape(c.cast(v, x.dtype), [v.shape[0]] + [1] * (len(x.shape) - 2))


def _apply(c, x, center, scale, weight, bias):
    y = c.mul(c.sub(x, _channels(c, center, x)), _channels(c, scale, x))
    weight, bias = (None if v is None else _channels(c, v, x) for v in (weight, bias))
    return _affine(c, y, weight, bias)


def _inference(c, x, weight, bias, mean, var, eps):
    wide = c.cast(x, dtypes.compute(x.dtype))
    scale = c.ew("rsqrt", c.add(c.cast(var, wide.dtype), float(eps)))
    # scale · x + offset as eager has it: two operations for each element, the rest for each channel.
    if weight is not None:
        scale = c.mul(c.cast(weight, wide.dtype), scale)
    moved = c.mul(c.cast(mean, wide.dtype), scale)
    offset = c.ew("neg", moved) if bias is None else c.sub(c.cast(bias, wide.dtype), moved)
    return c.add(c.mul(wide, _channels(c, scale, wide)), _channels(c, offset, wide))


def _training(c, x, weight, bias, mean, var, momentum, eps):
    """Result, mean and rstd of the batch, and the running statistics after it (None where there are none)."""
    wide = c.cast(x, dtypes.compute(x.dtype))
    axes = [i for i in range(len(x.shape)) if i != 1]
    center, squares = moments(c, wide, axes)
    count = c.count(wide, axes)
    n = c.size_value(count, wide.dtype)
    channels = [x.shape[1]]
    center, squares = c.reshape(center, channels), c.reshape(squares, channels)
    scale = c.ew("rsqrt", c.add(c.div(squares, n), float(eps)))
    y = _apply(c, wide, center, scale, weight, bias)

    def moved(old, new):
        if old is None:
            return None
        via = dtypes.compute(old.dtype)
        new = c.add(c.mul(c.cast(new, via), momentum), c.mul(c.cast(old, via), 1 - momentum))
        return c.cast(new, old.dtype)

    unbiased = c.div(squares, c.sub(n, 1)) if c.hint(count) > 1 else c.div(squares, n)
    return y, center, scale, moved(mean, center), moved(var, unbiased)


@lower("_native_batch_norm_legit_no_training.default")
def batch_norm_inference(c, x, weight, bias, mean, var, momentum, eps):
    y = c.cast(_inference(c, x, weight, bias, mean, var, eps), x.dtype)
    return (y, *(c.number(n, 0, s) for n, s in zip(c.out_dtypes[1:], c.out_shapes[1:], strict=True)))


@lower("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(c, x, weight, bias, training, momentum, eps):
    return _finish(c, *_training(c, x, weight, bias, None, None, momentum, eps)[:3])


@lower("_native_batch_norm_legit_functional.default")
def batch_norm_functional(c, x, weight, bias, mean, var, training, momentum, eps):
    if not training:
        raise Unsupported("functional batch norm outside training")
    return _finish(c, *_training(c, x, weight, bias, mean, var, momentum, eps))
