# hologram_torch/quantized/numbers.py: weights and activations as numbers of 8 and 4 bits
"""A weight is a matrix, a row for each result. Its numbers are whole ones times a scale: of a row, or of a group of neighbours in it.
Everything here is ordinary operators of PyTorch, so that eager computes what compiled graphs do."""

import torch

DEEPEST = 65_000  # products of 255 and 127 that 32 bits sum without overflow, with room for the zero point's


def groups_of(depth, group):
    """Numbers in a group: the largest divisor of the row's length that is at most `group`."""
    return next(n for n in range(min(group, depth), 0, -1) if depth % n == 0)


def _steps(extreme, count, dtype):
    """Scales in the weight's dtype, and what numbers are divided by: what is stored, so that its rounding costs nothing."""
    scales = (extreme / count).to(dtype)
    tiny = torch.finfo(dtype).tiny
    return torch.where(scales.abs() < tiny, torch.full_like(scales, tiny), scales)


def to_bytes(weight, group):
    """weight [rows, depth] → int8 [rows, depth], scales [rows, groups]."""
    rows, depth = weight.shape
    parts = weight.detach().float().reshape(rows, depth // group, group)
    scales = _steps(parts.abs().amax(2), 127, weight.dtype)
    whole = (parts / scales.float()[:, :, None]).round().clamp(-127, 127)
    return whole.reshape(rows, depth).to(torch.int8), scales  # no view, which would share its memory


def to_halves(weight, group):
    """weight [rows, depth] → uint8 [rows, depth / 2], two neighbours a byte, the first one below, each with 8 added; scales [rows,
    groups]. The number of a group farthest from 0 becomes -8, so that all 16 values are used."""
    rows, depth = weight.shape
    parts = weight.detach().float().reshape(rows, depth // group, group)
    extreme = parts.gather(2, parts.abs().argmax(2, True)).squeeze(2)
    scales = _steps(extreme, -8, weight.dtype)
    whole = (parts / scales.float()[:, :, None]).round().clamp(-8, 7).reshape(rows, depth // 2, 2).to(torch.int32) + 8
    return (whole[:, :, 0] | whole[:, :, 1] << 4).to(torch.uint8), scales


def whole_numbers(values):
    """Rows of a weight as it is stored, in integers around 0."""
    if values.dtype == torch.int8:
        return values
    return torch.stack((values & 15, values >> 4), -1).flatten(-2).to(torch.int8) - 8


def scaled(values, scales, dtype):
    """Rows of a weight as they are stored, as numbers of `dtype`."""
    whole = whole_numbers(values)
    parts = whole.unflatten(-1, (scales.shape[-1], -1)).to(scales.dtype) * scales.unsqueeze(-1)
    return parts.flatten(-2).to(dtype)


def range_of(low, high):
    """Step and zero point of bytes 0 … 255 for numbers from low to high, 0 among them; a range of nothing has the step 0."""
    low, high = low.clamp(max=0), high.clamp(min=0)
    step = (high - low) / 255
    zero = torch.where(step > 0, -low / step, step)
    return step, zero.round()


def rounded(x, step, zero):
    """x as bytes 0 … 255; where the range was found in x and is not finite they do not matter, as the step is not either."""
    inverse = torch.where(step > 0, 1 / step, step)
    return ((x * inverse).round() + zero).clamp(0, 255).to(torch.uint8)


def rows_to_bytes(x):
    """x [rows, depth] in float32 → uint8, and each row's step and zero point."""
    step, zero = range_of(x.amin(1, True), x.amax(1, True))
    return rounded(x, step, zero), step, zero
