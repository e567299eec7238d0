# hologram_torch/resize.py: bilinear interpolation axis by axis
"""PyTorch's decomposition gathers four neighbours of each element. Along one axis after the other it is two gathers of
half the elements and then whole lines, with the same sums in the same order; gradients likewise."""

import torch
from torch._prims_common import suggest_memory_format

_WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


_NAMES = ("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias")


def rewrite(node) -> bool:
    """Replaces torch.nn.functional.interpolate where it is bilinear and all sizes are known."""
    given = dict(zip(_NAMES, node.args)) | dict(node.kwargs)
    if given.get("mode") != "bilinear" or given.get("recompute_scale_factor") or given.get("antialias"):
        return False
    source = given.get("input")
    x = source.meta.get("example_value") if isinstance(source, torch.fx.Node) else None
    if not isinstance(x, torch.Tensor) or x.device.type != "cpu" or not x.is_floating_point() or x.dim() != 4:
        return False
    size, factors = (_pair(given.get(name)) for name in ("size", "scale_factor"))
    known = all(isinstance(n, (int, float)) for n in (*x.shape, *size, *factors))
    if not known or bool(size) == bool(factors) or 0 in x.shape:
        return False
    counts = size or [int(n * f) for n, f in zip(x.shape[2:], factors)]
    if min(counts) < 1:
        return False
    node.target = bilinear
    node.args = (source, counts, bool(given.get("align_corners")), factors)
    node.kwargs = {}
    return True


def _pair(value):
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value, value]


def bilinear(x, counts, align, factors):
    """The image x interpolated to counts[0] × counts[1] pixels, in x's memory format; factors: as given, or empty."""
    y = x.to(_WIDE.get(x.dtype, x.dtype))
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
