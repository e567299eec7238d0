# hologram_torch/capture/resize.py: bicubic, bilinear and nearest interpolation axis by axis
"""PyTorch's decompositions gather four neighbours of each element for bilinear interpolation, 16 for bicubic. Along one axis
after the other it is two (four) gathers of half the elements and then whole lines, with the same sums in the same order;
gradients likewise. Bicubic images of twice or four times the size, and nearest neighbours by whole factors, are no gathers at
all: lines and elements are repeated or left out."""

import functools

import numpy as np
import torch
from torch._prims_common import suggest_memory_format

from .. import runtimes
from .forms import cubic_weights, widened

_LINES = "bilinear", "bicubic"
_LONGEST_SKIP = 3  # lines of an image for each of the result: beyond, PyTorch's form reads fewer
_NAMES = ("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias")


def rewrite(node) -> bool:
    """Replaces torch.nn.functional.interpolate where all sizes are known: if it is bilinear or bicubic, or nearest by
    whole factors."""
    given = dict(zip(_NAMES, node.args)) | dict(node.kwargs)
    mode = given.get("mode", "nearest")
    if given.get("recompute_scale_factor") or given.get("antialias"):
        return False
    source = given.get("input")
    x = source.meta.get("example_value") if isinstance(source, torch.fx.Node) else None
    if not isinstance(x, torch.Tensor) or not runtimes.holds(x) or not 3 <= x.dim() <= 5:
        return False
    size, factors = (_each(given.get(name), x.dim() - 2) for name in ("size", "scale_factor"))
    known = all(isinstance(n, (int, float)) for n in (*x.shape, *size, *factors))
    if not known or bool(size) == bool(factors) or 0 in x.shape:
        return False
    counts = size or [int(n * f) for n, f in zip(x.shape[2:], factors)]
    if min(counts) < 1:
        return False
    if mode in _LINES and x.dim() == 4 and x.is_floating_point():
        if mode == "bicubic" and x.shape[2] > _LONGEST_SKIP * counts[0]:
            return False
        node.target = bilinear if mode == "bilinear" else bicubic
        node.args = (source, counts, bool(given.get("align_corners")), factors)
    elif mode in ("nearest", "nearest-exact"):
        scales = [1 / f for f in factors] or [n / count for n, count in zip(x.shape[2:], counts)]
        offset = 0.5 if mode == "nearest-exact" else 0.0
        steps = [_step(*sizes, offset) for sizes in zip(x.shape[2:], counts, scales)]
        if None in steps:
            return False
        node.target = nearest
        node.args = (source, steps)
    else:
        return False
    node.kwargs = {}
    return True


def _step(n, count, scale, offset):
    """(copies, stride, first) of the n elements that become `count`, None where they are not spaced evenly. Positions
    are PyTorch's, computed in float32."""
    at = ((np.arange(count, dtype=np.float32) + np.float32(offset)) * np.float32(scale)).astype(np.int64).clip(max=n - 1)
    if count % n == 0 and (at == np.arange(count) // (count // n)).all():
        return count // n, 1, 0
    if n % count == 0 and (at == np.arange(count) * (n // count) + at[0]).all():
        return 1, n // count, int(at[0])
    return None


def nearest(x, steps):
    """x with each of its last axes' elements repeated or taken at a stride (`steps`, from _step), in x's memory format."""
    form = suggest_memory_format(x)
    x = x[(..., *(slice(first, None, stride) for _, stride, first in steps))]
    wide, shape = list(x.shape[:2]), list(x.shape[:2])
    for n, (copies, _, _) in zip(x.shape[2:], steps):
        wide += [n, copies]
        shape.append(n * copies)
    pairs = [1 if k % 2 else n for k, n in enumerate(wide[2:])]
    return x.reshape(*wide[:2], *pairs).expand(wide).reshape(shape).clone(memory_format=form)  # never x itself


def _each(value, count):
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value] * count


def bilinear(x, counts, align, factors):
    """The image x interpolated to counts[0] × counts[1] pixels, in x's memory format; factors: as given, or empty."""
    return _by_lines(_line, x, counts, align, factors)


def bicubic(x, counts, align, factors):
    return _by_lines(_cubic_line, x, counts, align, factors)


def _by_lines(line, x, counts, align, factors):
    y = widened(x)
    for axis in (3, 2):
        y = line(y, axis, counts[axis - 2], align, factors[axis - 2] if factors else None)
    return y.to(x.dtype).contiguous(memory_format=suggest_memory_format(x))


def _places(index, n, count, align, factor):
    """Where the elements of an index lie among the n."""
    if align:
        return index * ((n - 1.0) / (count - 1.0) if count > 1 else 0.0)
    return (1.0 / factor if factor else n / count) * (index + 0.5) - 0.5


def _along(values, axis):
    return values.reshape([-1 if i == axis else 1 for i in range(4)])


def _line(x, axis, count, align, factor):
    n = x.shape[axis]
    at = _places(torch.arange(count).to(x.dtype), n, count, align, factor).clamp(min=0.0)
    low = at.to(torch.int64)
    high = (low + 1).clamp(max=n - 1)
    share = _along((at - low).clamp(0.0, 1.0), axis)
    first = x.index_select(axis, low)
    return first + (x.index_select(axis, high) - first) * share


def _cubic_line(x, axis, count, align, factor):
    n = x.shape[axis]
    phases = _phases(x.dtype, n, count, align, factor) if axis == 3 else []
    if phases:
        wide = torch.nn.functional.pad(x, (2, 2, 0, 0), mode="replicate")
        runs = [_weighted(lambda k: wide.narrow(3, 2 + step + k, n), cubic_weights(share)) for step, share in phases]
        return torch.stack(runs, 4).reshape([*x.shape[:3], count])
    at = _places(torch.arange(count).to(x.dtype), n, count, align, factor)
    low = at.floor()
    weights = [_along(w, axis) for w in cubic_weights((at - low).clamp(0.0, 1.0))]
    low = low.to(torch.int64)
    return _weighted(lambda k: x.index_select(axis, (low + k).clamp(0, n - 1)), weights)


def _weighted(tap, weights):
    return functools.reduce(torch.add, (tap(k) * w for k, w in enumerate(weights, -1)))


def _phases(dtype, n, count, align, factor):
    """Of an image two or four times as long, whose elements lie all alike beside those they are made of: how far their first
    pixel is from their own, and how far they are behind it, for each of the first ones."""
    times = count // n
    if times not in (2, 4) or count != times * n:
        return []
    at = _places(np.arange(count, dtype=np.float64 if dtype == torch.float64 else np.float32), n, count, align, factor)
    step, share = np.floor(at).reshape(n, times) - np.arange(n)[:, None], (at - np.floor(at)).reshape(n, times)
    if (step != step[0]).any() or (share != share[0]).any() or np.abs(step).max() > 1:
        return []
    return list(zip(step[0].astype(int).tolist(), share[0].tolist(), strict=True))
