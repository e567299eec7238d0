# hologram_torch/lowering/convolution.py: convolutions and their gradients
import itertools

from hologram import _quantised
from hologram._convolution import channels_last, convolve, pad_axes, per_axis, rows, transposed

from ..graph import dtypes
from ..graph.builder import numel
from . import Unsupported, lower

MOST_SUMS = 25  # taps of a depthwise convolution whose gradient is a sum for each of them
MOST_PIXELS = 384  # of a block whose sum is one chain
MOST_IN_GROUP, MOST_DEPTH = 8, 128  # results of a group and elements of its windows that are summed in blocks


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
        y = _quantised.convolved(c, x, w, stride, padding, padding, dilation, groups)
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
