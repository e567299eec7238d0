# hologram_torch/capture/segments.py: operators over runs of elements that lie one after the other, and over places that are counted
"""Each function has its operator's signature and returns NotImplemented where the operator stays whole. Where eager refuses what
a tensor holds, an index leaves its range, which kernels tell."""

import torch

from .forms import WIDE, known, widened

aten = torch.ops.aten
_MOST = 1 << 14  # elements in runs: of more PyTorch's kernel was measured faster


# --- places
def _nonzero_static(x, *, size, fill_value=-1):
    """The coordinates of the first `size` elements that are not 0, and `fill_value` behind the last of them."""
    if not known(size, *x.shape) or size < 0 or x.is_complex():
        return NotImplemented
    if x.dim() == 0 or 0 in (size, *x.shape):
        return torch.full([size, x.dim()], fill_value, dtype=torch.int64)
    kept = (x != 0).reshape(-1)
    count = kept.to(torch.int64).cumsum(0)
    at = torch.where(kept, count - 1, size).clamp(max=size)
    place = torch.zeros([size + 1], dtype=torch.int64).scatter(0, at, torch.arange(x.numel())).narrow(0, 0, size)
    stride, lines = x.numel(), []
    for n in x.shape:
        stride //= n
        lines.append(place // stride % n)
    return torch.where((torch.arange(size) < count[-1]).unsqueeze(1), torch.stack(lines, 1), fill_value)


def _repeat_interleave(repeats, *, output_size=None):
    """Each place of `repeats` as often as it says."""
    if output_size is None or not known(output_size, *repeats.shape) or repeats.dim() != 1 or 0 in repeats.shape:
        return NotImplemented
    if output_size == 0:
        return NotImplemented
    n, ends = len(repeats), repeats.to(torch.int64).cumsum(0)
    at = torch.searchsorted(ends, torch.arange(output_size), right=True)
    right = (repeats >= 0).all() & (ends[-1] == output_size)
    return torch.arange(n, dtype=repeats.dtype).index_select(0, torch.where(right, at, n))


# --- reductions of runs along an axis
def _runs(data, lengths, offsets, axis, unsafe):
    """Of each place along the axis which run it is in (the number of runs: in none), and how long those are: [..., n] and [..., m]."""
    given = lengths if offsets is None else offsets
    if given is None or (lengths is not None and offsets is not None) or not data.is_floating_point() or not data.dim():
        return None
    axis = axis % data.dim()
    fits = known(*data.shape, *given.shape) and axis == given.dim() - 1 and given.shape[:-1] == data.shape[:axis]
    if not fits or data.numel() > _MOST or 0 in (*data.shape, *given.shape) or (offsets is not None and given.shape[-1] < 2):
        return None
    given, n = given.to(torch.int64), data.shape[axis]
    if offsets is None:
        ends, right = given.cumsum(-1), (given >= 0).all()
        if not unsafe:
            right = right & (ends[..., -1] == n).all()
    else:
        ends, given = given[..., 1:], given[..., 1:] - given[..., :-1]
        right = (given >= 0).all()
    # As many runs as end before a place or at it come before its own.
    marks = torch.zeros([*ends.shape[:-1], n + 1], dtype=torch.int64)
    at = marks.scatter_add(-1, ends.clamp(0, n), torch.ones_like(ends)).narrow(-1, 0, n).cumsum(-1)
    if offsets is not None:
        at = torch.where(torch.arange(n) < offsets[..., :1], ends.shape[-1], at)
    return torch.where(right, at, given.shape[-1] + 1), given


def _over(line, data, axis):
    """Numbers of places along the axis for what lies behind it too."""
    return line.reshape([*line.shape, *[1] * (data.dim() - 1 - axis)])


_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -torch.inf, "min": torch.inf}
_HOW = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


def _gathered(values, at, axis, m, initial, how):
    """What the m runs hold, and behind them what is in none."""
    shape = list(values.shape)
    shape[axis] = m + 1
    start = torch.full(shape, initial, dtype=values.dtype)
    return start.scatter_reduce(axis, at, values, how, include_self=True)


def _segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    found = None if indices is not None else _runs(data, lengths, offsets, axis, unsafe)
    if found is None or reduce not in _HOW:
        return NotImplemented
    axis = axis % data.dim()
    at, length = _over(found[0], data, axis).expand(data.shape), found[1]
    m, x = length.shape[-1], widened(data)
    start = _START[reduce] if initial is None else float(initial)
    y = _gathered(x, at, axis, m, start, _HOW[reduce]).narrow(axis, 0, m)
    if reduce == "mean":
        length = _over(length, data, axis)
        y = torch.where(length > 0, y / length, torch.nan if initial is None else y)
    return y.to(data.dtype).contiguous()


def _segment_reduce_backward(gradient, output, data, reduce, *, lengths=None, offsets=None, axis=0, initial=None):
    found = _runs(data, lengths, offsets, axis, True)
    if found is None or reduce not in _HOW:
        return NotImplemented
    axis = axis % data.dim()
    at, length = _over(found[0], data, axis).expand(data.shape), _over(found[1], data, axis)
    m, wide = found[1].shape[-1], WIDE.get(data.dtype, data.dtype)
    x = data.to(wide)

    def here(y):
        """A run's number at each of its elements, 0 at those in none."""
        return torch.constant_pad_nd(y, [0, 0] * (data.dim() - 1 - axis) + [0, 1]).gather(axis, at)

    def count(which):
        return _gathered(which.to(wide), at, axis, m, 0.0, "sum").gather(axis, at)

    share = here(gradient.to(wide))
    if reduce == "mean":
        share = here(gradient.to(wide) / length.clamp(min=1))
    elif reduce in ("max", "min"):
        hit = x.isnan() | (x == here(output.to(wide)))
        share = torch.where(hit, torch.where(share > 0, share / count(hit).clamp(min=1), share), 0)  # negative ones whole, as eager
    elif reduce == "prod":
        none, nan = x == 0, x.isnan()
        zeros, nans = count(none) - none.to(wide), count(nan) - nan.to(wide)  # among the others of the run
        start = 1.0 if initial is None else float(initial)
        others = _gathered(torch.where(none | nan, 1, x), at, axis, m, start, "prod").gather(axis, at)
        others = torch.where(nans > 0, torch.nan, torch.where(zeros > 0, others * 0, others))
        share = share * torch.where(none | nan, others, here(output.to(wide)) / torch.where(none | nan, 1, x))
    return share.to(data.dtype)


def table() -> dict:
    """The functions by operator overload."""
    return {
        aten.nonzero_static.default: _nonzero_static, aten.repeat_interleave.Tensor: _repeat_interleave,
        aten.segment_reduce.default: _segment_reduce, aten._segment_reduce_backward.default: _segment_reduce_backward,
    }  # fmt: skip
