# hologram_torch/capture/sampled.py: operators that read elements where numbers say, and their gradients, by gathers and scattered sums
"""Each function has its operator's signature and returns NotImplemented where the operator stays whole."""

import itertools
import math

import torch
from torch._prims_common import suggest_memory_format

from .forms import WIDE, cubic_weights, known

aten = torch.ops.aten
_MOST_TAPS = 64


def _image(x, rank):
    """x with its last `rank` axes as one."""
    return x.reshape([*x.shape[: x.dim() - rank], math.prod(x.shape[x.dim() - rank :])])


# --- maxima of windows: each gives its gradient to the element it was
def _max_backward(rank):
    def form(gradient, x, *rest):
        places = rest[-1]
        wide = WIDE.get(x.dtype, x.dtype)
        zero = torch.zeros_like(_image(x, rank), dtype=wide, memory_format=torch.contiguous_format)
        out = zero.scatter_add(-1, _image(places, rank), _image(gradient, rank).to(wide)).reshape(x.shape).to(x.dtype)
        return out.contiguous(memory_format=suggest_memory_format(x)) if x.dim() > rank + 1 else out

    return form


def _max_backward_of_windows(rank):
    """What a sum over the windows of each element would take too long for."""

    def form(gradient, x, kernel, stride, padding, dilation, ceil_mode, places):
        taps = math.prod(kernel) if len(kernel) == rank else kernel[0] ** rank
        return _max_backward(rank)(gradient, x, places) if taps > 36 and 0 not in x.shape else NotImplemented

    return form


def _unpooled(rank):
    """Elements at places of their own image: PyTorch's form writes into others' where one is out of range."""

    def form(x, places, size, *_):
        shape = [*x.shape[: x.dim() - rank], *size]
        out = x.new_zeros(shape)
        if 0 not in shape:
            out = _image(out, rank).scatter(-1, _image(places, rank), _image(x, rank)).reshape(shape)
        return out.contiguous(memory_format=suggest_memory_format(x)) if rank == 2 else out

    return form


def _fractional(rank):
    """The maxima of windows that begin at places drawn at random, the first of the largest or the last NaN."""

    def form(x, kernel, size, samples):
        kernel, size = (list(n) * (rank if len(n) == 1 else 1) for n in (kernel, size))
        image = x.shape[x.dim() - rank :]
        if not known(*x.shape) or 0 in (*image, *size) or math.prod(kernel) > _MOST_TAPS:
            return NotImplemented
        if 0 in x.shape:
            none = [*x.shape[: x.dim() - rank], *size]
            return x.new_zeros(none), torch.zeros(none, dtype=torch.int64)
        lines = []  # for each axis the first places [batch, channels, count]
        for axis in range(rank):
            # Of a plane, in two dimensions, the last axis has the first sample.
            sample = samples[..., rank - 1 - axis if rank == 2 else axis].reshape(x.shape[: x.dim() - rank]).unsqueeze(-1)
            n, count = image[axis] - kernel[axis], size[axis]
            first = torch.full_like(sample, n, dtype=torch.int64)
            if count > 1:
                scale = torch.full_like(sample, n) / (count - 1)
                at = torch.arange(count - 1).to(sample.dtype)
                first = torch.cat([((at + sample) * scale).to(torch.int64) - (sample * scale).to(torch.int64), first], -1)
            lines.append(first)
        flat, best, found = _image(x, rank), None, None
        for tap in itertools.product(*map(range, kernel)):
            place = 0
            for axis, (first, k) in enumerate(zip(lines, tap, strict=True)):
                here = (first + k) * math.prod(image[axis + 1 :])
                place = place + here.reshape([*here.shape[:-1], *(-1 if a == axis else 1 for a in range(rank))])
            here = flat.gather(-1, _image(place, rank)).reshape(place.shape)
            larger = None if best is None else (here > best) | (here != here)
            best = here if larger is None else torch.where(larger, here, best)
            found = place if larger is None else torch.where(larger, place, found)
        return best, found

    return form


# --- images and volumes read at points of a grid (of images PyTorch's gradients are faster)
def _inside(at, n, padding, align, rank):
    """A coordinate brought into the image, and by how much it moves there. NaN becomes the first place of an image, and of a volume
    the last one, as in eager, but not for gradients (rank: None)."""
    slope = torch.ones_like(at)
    if padding == 0:
        return at, slope
    if padding == 2:
        low, span = (0.0, n - 1.0) if align else (-0.5, float(n))
        if span == 0:
            return torch.zeros_like(at), torch.zeros_like(at)
        apart = at - low
        slope = torch.where(apart < 0, -1.0, 1.0)
        apart = apart.abs()
        turns = torch.floor(apart / span)
        rest, even = apart - turns * span, turns % 2 == 0
        at = torch.where(even, rest, span - rest) + low
        slope = torch.where(even, slope, -slope)
    slope = torch.where((at > 0) & (at < n - 1), slope, 0.0)
    if rank is None:
        return at.clamp(0, n - 1), slope
    if rank == 2:
        return torch.where(at > 0, torch.where(at < n - 1, at, n - 1.0), 0.0), slope
    return torch.where(at < n - 1, torch.where(at > 0, at, 0.0), n - 1.0), slope


_MODES = 0, 1  # linear, nearest


def _taps(points, n, mode, padding, align, rank):
    """Of one axis: (place, whether it is in the image, weight, slope of the weight by the point, if any) of each tap."""
    at, factor = _unnormalized(points, n, align), ((n - 1) / 2 if align else n / 2)
    at, moved = _inside(at, n, padding, align, rank)
    first, slope = torch.floor(at), moved * factor
    rest = at - first
    taps = [(first, 1 - rest, -slope), (first + 1, rest, slope)] if mode == 0 else [(torch.round(at), torch.ones_like(at), None)]
    valid = [(place >= 0) & (place < n) for place, _, _ in taps]
    return [(torch.where(v, place, 0.0).to(torch.int64), v, *rest) for v, (place, *rest) in zip(valid, taps, strict=True)]


def _unnormalized(points, n, align):
    return (points + 1) / 2 * (n - 1) if align else ((points + 1) * n - 1) / 2


def _cubic_taps(points, n, padding, align):
    """Of one axis: (place, whether it is in the image, weight) of each of four taps, which are brought into the image one by one."""
    at = _unnormalized(points, n, align)
    first = torch.floor(at)
    out = []
    for k, weight in enumerate(cubic_weights(at - first), -1):
        place, _ = _inside(first + k, n, padding, align, 2)
        valid = (place >= 0) & (place < n)
        out.append((torch.where(valid, place, 0.0).to(torch.int64), valid, weight))
    return out


def _cubic_sampler(x, grid, padding, align):
    """Along lines and then across them, as eager sums."""
    (height, width), flat = x.shape[2:], _image(x, 2)
    rows, columns = (_cubic_taps(grid[..., a].reshape([grid.shape[0], 1, -1]), n, padding, align) for a, n in ((1, height), (0, width)))
    total = 0
    for row, of_row, weight in rows:
        line = 0
        for column, of_column, share in columns:
            here = flat.gather(2, (row * width + column).expand([-1, x.shape[1], -1]))
            line = line + torch.where(of_row & of_column, here, 0) * share
        total = total + line * weight
    return total.reshape([*x.shape[:2], *grid.shape[1:-1]])


def _each_tap(x, grid, mode, padding, align, rank):
    """Of each tap of all axes: its places [batch, 1, points], which are in the image, weights, and slopes by each axis of the
    grid (last axis first). `rank`: as _inside's. Weights of images are numbers outside too, NaN at points that are none."""
    image = x.shape[2:]
    axes = len(image)
    lines = [_taps(grid[..., axes - 1 - a].reshape([grid.shape[0], 1, -1]), image[a], mode, padding, align, rank) for a in range(axes)]
    for tap in itertools.product(*lines):
        place, valid = 0, True
        for n, (here, inside, _, _) in zip(image, tap, strict=True):
            place, valid = place * n + here, inside & valid
        weights = [weight for _, _, weight, _ in tap]
        slopes = []
        for axis in reversed(range(axes)):
            rise = tap[axis][3]
            parts = [rise, *(w for a, w in enumerate(weights) if a != axis)]
            slopes.append(None if rise is None else torch.where(valid, math.prod(parts[1:], start=parts[0]), 0.0))
        weight = math.prod(weights[1:], start=weights[0])
        yield place, valid, weight if rank == 2 else torch.where(valid, weight, 0.0), slopes


def _takes(x, grid) -> bool:
    sizes = (*x.shape, *grid.shape)
    return x.dtype in (torch.float32, torch.float64) and known(*sizes) and 0 not in sizes


def _sampler(x, grid, mode, padding, align):
    if mode not in _MODES or not _takes(x, grid):
        return NotImplemented
    flat, total = _image(x, x.dim() - 2), None
    for place, valid, weight, _ in _each_tap(x, grid, mode, padding, align, x.dim() - 2):
        here = torch.where(valid, flat.gather(2, place.expand([-1, x.shape[1], -1])), 0) * weight
        total = here if total is None else total + here
    return total.reshape([*x.shape[:2], *grid.shape[1:-1]])


def _sampler_of_images(x, grid, mode, padding, align):
    """Those of unknown sizes by PyTorch's decomposition. Coordinates need more bits than the half types have; eager's own kernel
    keeps them."""
    if mode == 2 and _takes(x, grid):
        return _cubic_sampler(x, grid, padding, align)
    found = _sampler(x, grid, mode, padding, align)
    if found is not NotImplemented or x.dtype in WIDE:
        return found
    from torch._decomp import decomposition_table

    return decomposition_table[aten.grid_sampler_2d.default](x, grid, mode, padding, align)


def _sampler_backward(gradient, x, grid, mode, padding, align, wanted):
    """Gradients of the image, where it is wanted, and of the grid."""
    if mode not in _MODES or not _takes(x, grid):
        return NotImplemented
    rank = x.dim() - 2
    flat, gradient = _image(x, rank), _image(gradient, rank)
    channels = [-1, x.shape[1], -1]
    places, parts, slopes = [], [], [torch.zeros_like(gradient[:, 0])] * rank
    for place, valid, weight, rises in _each_tap(x, grid, mode, padding, align, None):
        place = place.expand(channels)
        places.append(place)
        parts.append(torch.where(valid, gradient * weight, 0))
        if rises[0] is not None:
            share = torch.where(valid.squeeze(1), (flat.gather(2, place) * gradient).sum(1), 0)
            slopes = [slope + share * rise.squeeze(1) for slope, rise in zip(slopes, rises, strict=True)]
    of_image = None
    if wanted[0]:
        of_image = torch.zeros_like(flat, memory_format=torch.contiguous_format)
        of_image = of_image.scatter_add(2, torch.cat(places, 2), torch.cat(parts, 2)).reshape(x.shape)
    return of_image, torch.stack(slopes, -1).reshape(grid.shape)


def table() -> dict:
    """The functions by operator overload."""
    named = {"grid_sampler_2d": _sampler_of_images, "grid_sampler_3d": _sampler, "grid_sampler_3d_backward": _sampler_backward}
    for rank in (2, 3):
        named[f"adaptive_max_pool{rank}d_backward"] = _max_backward(rank)
        named[f"max_pool{rank}d_with_indices_backward"] = _max_backward_of_windows(rank)
        named[f"max_unpool{rank}d"] = _unpooled(rank)
        named[f"fractional_max_pool{rank}d"] = _fractional(rank)
        named[f"fractional_max_pool{rank}d_backward"] = _max_backward(rank)
    return {getattr(aten, name).default: form for name, form in named.items()}
