# hologram_torch/capture/resize.py: bilinear and nearest interpolation axis by axis
"""PyTorch's decomposition gathers four neighbours of each element for bilinear interpolation. Along one axis after the
other it is two gathers of half the elements and then whole lines, with the same sums in the same order; gradients
likewise. Nearest neighbours by whole factors are no gathers at all: lines and elements are repeated or left out."""

import numpy as np
import torch
from torch._prims_common import suggest_memory_format

from .. import runtimes
from .forms import widened

_NAMES = ("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias")


def rewrite(node) -> bool:
    """Replaces torch.nn.functional.interpolate where all sizes are known: if it is bilinear, or nearest by whole
    factors."""
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
    if mode == "bilinear" and x.dim() == 4 and x.is_floating_point():
        node.target = bilinear
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
    return x.reshape(*wide[:2], *pairs).expand(wide).reshape(shape).contiguous(memory_format=form)


def _each(value, count):
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value] * count


def bilinear(x, counts, align, factors):
    """The image x interpolated to counts[0] × counts[1] pixels, in x's memory format; factors: as given, or empty."""
    y = widened(x)
    for axis in (3, 2):
        y = _line(y, axis, counts[axis - 2], align, factors[axis - 2] if factors else None)
    return y.to(x.dtype).contiguous(memory_format=suggest_memory_format(x))


def _line(x, axis, count, align, factor):
    n = x.shape[axis]
    at = torch.arange(count).to(x.dtype)
    if align:
        at = at * ((n - 1.0) / (count - 1.0) if count > 1 else 0.0)
    else:
        at = ((1.0 / factor if factor else n / count) * (at + 0.5) - 0.5).clamp(min=0.0)
    low = at.to(torch.int64)
    high = (low + 1).clamp(max=n - 1)
    share = (at - low).clamp(0.0, 1.0).reshape([count if i == axis else 1 for i in range(4)])
    first = x.index_select(axis, low)
    return first + (x.index_select(axis, high) - first) * share
