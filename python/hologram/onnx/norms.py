# hologram/onnx/norms.py: normalisations
# mypy: ignore-errors
from hologram._convolution import pad_axes
from hologram.onnx.table import operator


def _per_channel(b, v, rank):
    return b.reshape(v, [1, v.shape[0], *[1] * (rank - 2)])


@operator("BatchNormalization")
def batch_normalization(call, x, scale, bias, mean, variance):
    b = call.b
    x, scale, bias, mean, variance = call.values(x, scale, bias, mean, variance)
    rank, wide = len(x.shape), b.wide(x)
    kind = wide.dtype
    results = []
    if call.attr("training_mode", 0):
        axes = [0, *range(2, rank)]
        momentum = call.attr("momentum", 0.9)
        own_mean = b.mean(wide, axes)
        off = b.sub(wide, _per_channel(b, own_mean, rank))
        own_variance = b.mean(b.mul(off, off), axes)
        for old, own in ((mean, own_mean), (variance, own_variance)):
            kept = b.mul(b.cast(old, kind), momentum)
            results.append(b.cast(b.add(kept, b.mul(own, 1 - momentum)), old.dtype))
        mean, variance = own_mean, own_variance
    mean, variance, scale, bias = (b.cast(v, kind) for v in (mean, variance, scale, bias))
    factor = b.mul(scale, b.ew("rsqrt", b.add(variance, call.attr("epsilon", 1e-5))))
    shift = b.sub(bias, b.mul(mean, factor))
    y = b.add(b.mul(wide, _per_channel(b, factor, rank)), _per_channel(b, shift, rank))
    return (b.cast(y, x.dtype), *results)


def normalised(b, x, axes, epsilon, stash=None):
    """(x - mean) / sqrt(variance + epsilon) in the wide type; the mean and the inverse deviation."""
    mean = b.mean(x, axes, True)
    off = b.sub(x, mean)
    inverse = b.ew("rsqrt", b.add(b.mean(b.mul(off, off), axes, True), epsilon))
    return b.mul(off, inverse), mean, inverse


@operator("InstanceNormalization")
def instance_normalization(call, x, scale, bias):
    b = call.b
    x, scale, bias = call.values(x, scale, bias)
    rank = len(x.shape)
    y, _, _ = normalised(b, b.wide(x), list(range(2, rank)), call.attr("epsilon", 1e-5))
    scale, bias = (b.cast(_per_channel(b, v, rank), y.dtype) for v in (scale, bias))
    return b.cast(b.add(b.mul(y, scale), bias), x.dtype)


@operator("LayerNormalization")
def layer_normalization(call, x, scale, bias=None):
    b = call.b
    x, scale, bias = call.values(x, scale, bias)
    axes = list(range(call.axis(len(x.shape), -1), len(x.shape)))
    wide = b.wide(x)
    y, mean, inverse = normalised(b, wide, axes, call.attr("epsilon", 1e-5))
    if scale.dtype == wide.dtype or x.dtype == wide.dtype:
        y = b.ew("mul", y, b.cast(scale, y.dtype))
        y = y if bias is None else b.ew("add", y, b.cast(bias, y.dtype))
        return b.cast(y, x.dtype), mean, inverse
    y = b.ew("mul", b.cast(y, x.dtype), scale)
    return (y if bias is None else b.ew("add", y, bias)), mean, inverse


@operator("RMSNormalization")
@operator("SimplifiedLayerNormalization")
def rms_normalization(call, x, scale):
    b = call.b
    x, scale = call.values(x, scale)
    axes = list(range(call.axis(len(x.shape), -1), len(x.shape)))
    wide = b.wide(x)
    inverse = b.ew("rsqrt", b.add(b.mean(b.mul(wide, wide), axes, True), call.attr("epsilon", 1e-5)))
    return b.ew("mul", b.cast(b.mul(wide, inverse), scale.dtype), scale)


@operator("GroupNormalization")
def group_normalization(call, x, scale, bias):
    b = call.b
    x, scale, bias = call.values(x, scale, bias)
    rank, groups = len(x.shape), call.attr("num_groups")
    n, channels, *image = x.shape
    parts = b.reshape(b.wide(x), [n, groups, channels // groups, *image])
    y, _, _ = normalised(b, parts, list(range(2, rank + 1)), call.attr("epsilon", 1e-5))
    if call.version < 21:  # a factor for each group
        scale, bias = (
            b.reshape(b.broadcast(b.unsqueeze(v, 1), [groups, channels // groups]), [channels]) for v in (scale, bias)
        )
    y = b.reshape(y, x.shape)
    scale, bias = (b.cast(_per_channel(b, v, rank), y.dtype) for v in (scale, bias))
    return b.cast(b.add(b.mul(y, scale), bias), x.dtype)


@operator("MeanVarianceNormalization")
def mean_variance(call, x):
    b, x = call.b, call.value(x)
    axes = [a % len(x.shape) for a in call.attr("axes", [0, 2, 3])]
    wide = b.wide(x)
    mean = b.mean(wide, axes, True)
    off = b.sub(wide, mean)
    deviation = b.ew("sqrt", b.mean(b.mul(off, off), axes, True))
    return b.cast(b.div(off, b.add(deviation, 1e-9)), x.dtype)


@operator("LRN")
def lrn(call, x):
    b, x = call.b, call.value(x)
    size, wide = call.attr("size"), b.wide(x)
    low = (size - 1) // 2
    squares = pad_axes(b, b.mul(wide, wide), [1], [low], [size - 1 - low])
    total = None
    for k in range(size):
        part = b.slice_axis(squares, 1, k, x.shape[1])
        total = part if total is None else b.add(total, part)
    scale = b.add(b.mul(total, call.attr("alpha", 1e-4) / size), call.attr("bias", 1.0))
    return b.cast(b.div(wide, b.ew("pow", scale, call.attr("beta", 0.75))), x.dtype)

