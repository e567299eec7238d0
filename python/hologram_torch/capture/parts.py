# hologram_torch/capture/parts.py: operators that are written as others, where PyTorch has no decomposition
"""Each function has its operator's signature and returns NotImplemented where the operator stays whole."""

import math

import torch
from torch._prims_common import suggest_memory_format

from .forms import WIDE, known, widened

aten = torch.ops.aten
_MOST_TAPS = 36  # along one axis


def _line(values, axis, rank):
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def _stored(y, like):
    return y.contiguous(memory_format=suggest_memory_format(like))


# --- adaptive pooling: window i of `count` along an axis of n is [floor(i n / count), ceil((i + 1) n / count))
def _longest(n, count):
    return max(-(-(i + 1) * n // count) - i * n // count for i in range(count))


def _adaptive_max(rank):
    def form(x, size):
        """Axis after axis from the last, each the first of the largest elements (the last NaN) of a line's windows."""
        image, size = x.shape[x.dim() - rank :], list(size)
        if not known(*x.shape, *size) or 0 in (*size, *x.shape) or x.dtype == torch.bool:
            return NotImplemented
        if all(n % count == 0 for n, count in zip(image, size, strict=True)):
            return NotImplemented  # which is plain pooling
        if max(_longest(n, count) for n, count in zip(image, size, strict=True)) > _MOST_TAPS:
            return NotImplemented
        best, place = x, torch.zeros([1] * x.dim(), dtype=torch.int64)
        stride = 1
        for axis in reversed(range(x.dim() - rank, x.dim())):
            n = x.shape[axis]
            place = place + _line(torch.arange(n) * stride, axis, x.dim())
            best, place = _largest(best, place.expand(best.shape), axis, n, size[axis - x.dim()])
            stride *= n
        return _stored(best, x), _stored(place, x)

    return form


def _largest(x, place, axis, n, count):
    at = torch.arange(count)
    start, last = at * n // count, ((at + 1) * n + count - 1) // count - 1
    best = found = None
    for k in range(_longest(n, count)):
        rows = (start + k).minimum(last)  # the last one again: it cannot be larger than itself
        tap, here = x.index_select(axis, rows), place.index_select(axis, rows)
        if best is None:
            best, found = tap, here
            continue
        larger = tap > best
        if x.dtype.is_floating_point:
            larger = larger | (tap != tap)
        best, found = torch.where(larger, tap, best), torch.where(larger, here, found)
    return best, found


def _adaptive_mean_backward(rank):
    def form(gradient, x):
        image, size = x.shape[x.dim() - rank :], gradient.shape[x.dim() - rank :]
        if not known(*x.shape, *gradient.shape) or 0 in size:
            return NotImplemented
        if 0 in x.shape:
            return torch.zeros_like(x)
        y = widened(gradient)
        for i in reversed(range(rank)):
            axis, n, count = x.dim() - rank + i, image[i], size[i]
            at = torch.arange(count)
            length = ((at + 1) * n + count - 1) // count - at * n // count
            y = y / _line(length.to(y.dtype), axis, x.dim())
        for i in reversed(range(rank)):
            y = _spread(y, x.dim() - rank + i, image[i], size[i])
            if y is None:
                return NotImplemented
        return _stored(y.to(x.dtype), x)

    return form


def _spread(y, axis, n, count):
    """For each of n elements the sum over the windows that it belongs to."""
    if n % count == 0:
        shape = list(y.shape)
        wide = y.unsqueeze(axis + 1).expand([*shape[: axis + 1], n // count, *shape[axis + 1 :]])
        return wide.reshape([*shape[:axis], n, *shape[axis + 1 :]])
    at = torch.arange(n)
    first, last = at * count // n, ((at + 1) * count + n - 1) // n - 1
    most = _longest(count, n)
    if most > _MOST_TAPS:
        return None
    total = None
    for k in range(most):
        here = y.index_select(axis, (first + k).minimum(last))
        total = here if total is None else total + torch.where(_line(first + k <= last, axis, y.dim()), here, 0)
    return total


# --- interpolation with weights of several pixels
def _triangle(t):
    return (1 - t.abs()).clamp(min=0)


def _cubic(t):
    """The convolution kernel with a = -1/2."""
    t = t.abs()
    near, far = (1.5 * t - 2.5) * t * t + 1, ((-0.5 * t + 2.5) * t - 4) * t + 2
    return torch.where(t < 1, near, torch.where(t < 2, far, 0))


def _antialiased(width, weigh):
    """Resizing with a filter that grows with the reduction (from `width` pixels), along one axis and then the other."""

    def form(x, size, align, scale_h=None, scale_w=None):
        if not known(*x.shape, *size) or x.dtype not in (torch.float32, torch.float64) or 0 in (*x.shape, *size):
            return NotImplemented
        y = x
        for axis, factor in ((2, scale_h), (3, scale_w)):  # rows first: whole lines are read
            n, count = x.shape[axis], size[axis - 2]
            if factor and int(n * factor) != count:
                return NotImplemented
            if align:
                scale = (n - 1) / (count - 1) if count > 1 else 0.0
            else:
                scale = 1 / factor if factor else n / count
            y = _filtered(y, axis, n, count, scale, width / 2 * max(scale, 1.0), weigh)
            if y is None:
                return NotImplemented
        return _stored(y, x)

    return form


def _filtered(x, axis, n, count, scale, support, weigh):
    most = math.ceil(support) * 2 + 1
    if most > _MOST_TAPS:
        return None
    center = scale * (torch.arange(count).to(x.dtype) + 0.5)
    first = (center - support + 0.5).to(torch.int64).clamp(min=0)
    length = (center + support + 0.5).to(torch.int64).clamp(max=n) - first
    k = torch.arange(most).unsqueeze(1)
    weights = weigh((k + first - center + 0.5) / max(scale, 1.0))
    weights = torch.where(k < length, weights, 0)
    whole = weights.sum(0)
    weights = weights / torch.where(whole == 0, 1, whole)
    total = None
    for k in range(min(most, n)):
        here = x.index_select(axis, (first + k).clamp(max=n - 1)) * _line(weights[k], axis, 4)
        total = here if total is None else torch.where(_line(k < length, axis, 4), total + here, total)
    return total


# --- padding
def _replication_backward(rank):
    def form(gradient, x, padding):
        y = widened(gradient)
        if not known(*x.shape, *padding) or 0 in x.shape or 0 in gradient.shape:
            return NotImplemented
        for i in range(rank):
            low, high = padding[2 * i : 2 * i + 2]
            axis = x.dim() - 1 - i
            y = _edges(y, axis, x.shape[axis], low, high)
        return _stored(y.to(x.dtype), x)

    return form


def _edges(y, axis, n, low, high):
    """The gradient of n elements whose first was repeated `low` times before them and the last `high` times behind."""
    if low < 0 or high < 0:  # elements that were cut off
        border = [0, 0] * (y.dim() - 1 - axis) + [max(-low, 0), max(-high, 0)]
        y, low, high = torch.constant_pad_nd(y, border), max(low, 0), max(high, 0)
    if n == 1:
        return y.sum(axis, keepdim=True)
    first = y.narrow(axis, 0, low + 1).sum(axis, keepdim=True)
    last = y.narrow(axis, low + n - 1, high + 1).sum(axis, keepdim=True)
    return torch.cat([first, y.narrow(axis, low + 1, n - 2), last], axis)


# --- masks
def _masked_scatter_backward(gradient, mask, sizes):
    """Element k is the gradient at the k-th place that the mask names; elements behind the last get 0."""
    count = 1
    for n in sizes:
        count = count * n
    mask = mask.expand(gradient.shape).reshape(-1)
    at = torch.where(mask, mask.to(torch.int64).cumsum(0) - 1, count)
    flat = gradient.new_zeros([count + 1]).scatter(0, at, gradient.reshape(-1))
    return flat.narrow(0, 0, count).reshape(list(sizes))


# --- distances
def _share(gradient, apart, p, distance):
    """The gradient of `apart` [..., d] from that of its norm of the order p."""
    if p == 0:
        return torch.zeros_like(apart)
    gradient, distance = gradient.unsqueeze(-1), distance.unsqueeze(-1)
    if p == 1:
        return gradient * apart.sign()
    if p == 2:
        return torch.where(distance == 0, 0, gradient / distance) * apart
    if p == math.inf:
        return torch.where(apart.abs() == distance, gradient * apart.sign(), 0)
    none = (distance == 0) | (apart == 0)
    return torch.where(none, 0, apart.sign() * apart.abs() ** (p - 1) * gradient / distance ** (p - 1))


def _cdist_backward(gradient, x, y, p, distance):
    """Gradient of x [..., m, d] from that of its distances [..., m, n] to y [..., n, d]."""
    return _share(gradient, x.unsqueeze(-2) - y.unsqueeze(-3), p, distance).sum(-2)


_QUICK = (0, 1, 2, math.inf)  # orders of which PyTorch's pdist takes a quarter of our time; of others, ten times that


def _pairs(n):
    return n * (n - 1) // 2


def _pdist(x, p=2.0):
    """Norms of the differences of each two rows of [n, d], by the first and then the second."""
    if not known(*x.shape) or p in _QUICK:
        return NotImplemented
    if not _pairs(x.shape[0]) or not x.shape[1]:
        return x.new_zeros([_pairs(x.shape[0])])
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1).unbind()
    return (x.index_select(0, first) - x.index_select(0, second)).abs().pow(p).sum(-1).pow(1 / p)


def _pdist_backward(gradient, x, p, distance):
    if not known(*x.shape) or p in _QUICK:
        return NotImplemented
    n = x.shape[0]
    if not _pairs(n) or not x.shape[1]:
        return torch.zeros_like(x, memory_format=torch.contiguous_format)
    row, column = torch.arange(n).unsqueeze(1), torch.arange(n)
    low, high = row.minimum(column), row.maximum(column)
    place = (low * (2 * n - 1 - low) // 2 + high - low - 1).clamp(0, _pairs(n) - 1)

    def square(values):
        return torch.where(low == high, 0, values.index_select(0, place.reshape(-1)).reshape(n, n))

    return _share(square(gradient), x.unsqueeze(1) - x.unsqueeze(0), p, square(distance)).sum(1)


# --- special functions
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _polygamma(n, x):
    """Derivative n of the digamma function: nine terms of its sum and Euler's and Maclaurin's for the rest; below 1/2 by
    reflection, as eager does for the first."""
    if n == 0:
        return torch.digamma(x)
    if n > 8:
        return NotImplemented
    dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    x = widened(x.to(dtype))
    turned = x < 0.5
    near = torch.where(turned, 1 - x, x)
    total = sum((near + k) ** -(n + 1) for k in range(9))
    far = near + 9
    rest, square, factor = 1 / n + 0.5 / far, 1 / (far * far), 1.0
    for k, number in enumerate(_BERNOULLI):  # B(2k) s (s + 1) … (s + 2k - 2) / (2k)!, with s = n + 1
        factor *= (n + 1) * 1.0 if k == 0 else (n + 2 * k) * (n + 2 * k + 1)
        rest = rest + number * factor / math.factorial(2 * k + 2) * square ** (k + 1)
    total = (-1.0) ** (n + 1) * math.factorial(n) * (total + rest * far**-n)
    if n == 1:
        sine = torch.sin(math.pi * x)
        return torch.where(turned, (math.pi * math.pi) / (sine * sine) - total, total).to(dtype)
    total = torch.where(turned, (-1.0) ** n * total - math.pi ** (n + 1) * _cotangent(n, x), total)
    total = torch.where((x <= 0) & (x == x.floor()), (-1.0) ** (n + 1) * math.inf, total)
    return torch.where(x == math.inf, math.nan, total).to(dtype)  # as eager's


def _cotangent(n, x):
    """Derivative n of cot at pi x: a polynomial of it, of which each derivative is by -(1 + cot²) times its own."""
    powers = [0.0, 1.0]
    for _ in range(n):
        slopes = [k * a for k, a in enumerate(powers)][1:]
        powers = [-(low + high) for low, high in zip([*slopes, 0.0, 0.0], [0.0, 0.0, *slopes], strict=True)]
    r = x - x.round()
    c = torch.where(r.abs() < 0.25, 1 / torch.tan(math.pi * r), torch.tan(math.pi * (0.5 * r.sign() - r)))
    value = 0
    for a in reversed(powers):
        value = value * c + a
    return value


def _frexp(x):
    """By the bits: a mantissa of [1/2, 1) and the exponent of 2; 0, infinities and NaN are their own mantissas, of exponent 0."""
    if x.dtype not in (torch.float64, torch.float32, *WIDE):
        return NotImplemented
    wide = widened(x)
    whole, low, bias = (torch.int64, 52, 1022) if wide.dtype == torch.float64 else (torch.int32, 23, 126)
    small = wide.abs() < torch.finfo(wide.dtype).tiny
    bits = torch.where(small, wide * 2.0 ** (low + 1), wide).view(whole)
    mask = (2 * bias + 3) << low
    mantissa = ((bits & ~mask) | (bias << low)).view(wide.dtype)
    exponent = ((bits & mask) >> low) - torch.where(small, bias + low + 1, bias)
    own = (wide == 0) | ~wide.isfinite()
    return torch.where(own, wide, mantissa).to(x.dtype), torch.where(own, 0, exponent).to(torch.int32)


# --- what cells of recurrent layers are on a GPU
def _with_biases(gates, biases):
    return sum((widened(b) for b in biases if b is not None), widened(gates))


def _lstm_cell(input_gates, hidden_gates, cell, input_bias=None, hidden_bias=None):
    """The new output and cell, and the gates behind their functions, which the backward pass takes."""
    gates = _with_biases(widened(input_gates) + widened(hidden_gates), (input_bias, hidden_bias))
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    new = f * widened(cell) + i * g
    out = (o * torch.tanh(new)).to(cell.dtype)
    return out, new.to(cell.dtype), torch.cat((i, f, g, o), 1).to(cell.dtype)


def _gru_cell(input_gates, hidden_gates, hidden, input_bias=None, hidden_bias=None):
    """The new output, and what the backward pass takes: the gates, the old output and the hidden part of the new one."""
    ri, zi, ni = _with_biases(input_gates, (input_bias,)).chunk(3, 1)
    rh, zh, nh = _with_biases(hidden_gates, (hidden_bias,)).chunk(3, 1)
    r, z, old = torch.sigmoid(ri + rh), torch.sigmoid(zi + zh), widened(hidden)
    n = torch.tanh(ni + r * nh)
    return (n + z * (old - n)).to(hidden.dtype), torch.cat((r, z, n, old, nh), 1).to(hidden.dtype)


def _roll(x, shifts, dims=()):
    """Channels last as eager's result lies, which PyTorch's rule for its strides forgets."""
    if not dims or suggest_memory_format(x) == torch.contiguous_format:
        return NotImplemented
    return _stored(aten.roll.default(x.contiguous(), shifts, dims), x)


def _channel_shuffle(x, groups):
    """Channels last as well, which PyTorch's form forgets."""
    from torch._decomp import decomposition_table

    return decomposition_table[aten.channel_shuffle.default](x, groups).clone(memory_format=suggest_memory_format(x))


def _sum_of(gates, has_bias):
    return gates.sum(0) if has_bias else None


def _lstm_cell_backward(grad_out, grad_new, cell, new, gates, has_bias):
    """Gradients of the gates before their functions, of the cell and of a bias."""
    i, f, g, o = widened(gates).chunk(4, 1)
    grown = torch.tanh(widened(new))
    of_out = torch.zeros_like(grown) if grad_out is None else widened(grad_out)
    of_cell = of_out * o * (1 - grown * grown) + (0 if grad_new is None else widened(grad_new))
    parts = of_cell * g * i * (1 - i), of_cell * widened(cell) * f * (1 - f), of_cell * i * (1 - g * g), of_out * grown * o * (1 - o)
    whole = torch.cat(parts, 1).to(gates.dtype)
    return whole, (of_cell * f).to(cell.dtype), _sum_of(whole, has_bias)


def _gru_cell_backward(gradient, saved, has_bias):
    """Gradients of the input's and the hidden gates, of the old output, and of both biases."""
    r, z, n, old, nh = widened(saved).chunk(5, 1)
    wide = widened(gradient)
    of_n = wide * (1 - z) * (1 - n * n)
    of_r, of_z = of_n * nh * r * (1 - r), wide * (old - n) * z * (1 - z)
    given, hidden = (torch.cat((of_r, of_z, last), 1).to(saved.dtype) for last in (of_n, of_n * r))
    return given, hidden, (wide * z).to(gradient.dtype), _sum_of(given, has_bias), _sum_of(hidden, has_bias)


def table() -> dict:
    """The functions by operator overload."""
    named = {
        "masked_scatter_backward": _masked_scatter_backward, "_cdist_backward": _cdist_backward,
        "_pdist_forward": _pdist, "_pdist_backward": _pdist_backward,
        "roll": _roll, "channel_shuffle": _channel_shuffle, "native_channel_shuffle": _channel_shuffle, "polygamma": _polygamma,
        "_upsample_bilinear2d_aa": _antialiased(2, _triangle), "_upsample_bicubic2d_aa": _antialiased(4, _cubic),
        "_thnn_fused_lstm_cell": _lstm_cell, "_thnn_fused_gru_cell": _gru_cell,
        "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward, "_thnn_fused_gru_cell_backward": _gru_cell_backward,
    }  # fmt: skip
    for rank in (1, 2, 3):
        named[f"replication_pad{rank}d_backward"] = _replication_backward(rank)
    for rank in (2, 3):
        named[f"adaptive_max_pool{rank}d"] = _adaptive_max(rank)
        named[f"_adaptive_avg_pool{rank}d_backward"] = _adaptive_mean_backward(rank)
    return {getattr(aten, name).default: form for name, form in named.items() if hasattr(aten, name)} | {aten.frexp.Tensor: _frexp}
