# hologram_torch/capture/random_operators.py: operators of PyTorch that draw random numbers, by what draws natively
import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..graph.dtypes import FLOATS, INT_RANGE, NAME
from .draws import choosing, exact, masks, most

aten = torch.ops.aten


def table() -> dict:
    """Operators that draw, by what draws natively."""
    return {op: _as_new(plan) for op, plan in plans().items()} | {
        aten.native_dropout.default: dropout, aten.native_dropout_backward.default: _dropout_backward,
        aten.bernoulli.p: _bernoulli, aten.bernoulli.default: _bernoulli_of, aten.bernoulli.Tensor: bernoulli_by,
        aten.rand.default: _made("uniform", 0.0, 1.0), aten.rand_like.default: _made_like("uniform", 0.0, 1.0),
        aten.randn.default: _made("normal", 0.0, 1.0), aten.randn_like.default: _made_like("normal", 0.0, 1.0),
        aten.normal.float_float: _normal_of_size, aten.normal.Tensor_float: _normal_around,
        aten.normal.Tensor_Tensor: _normal_by, aten.normal.float_Tensor: _normal_by,
        aten.randint.default: _randint, aten.randint.low: _randint_from,
        aten.randint_like.default: _randint_like, aten.randint_like.low_dtype: _randint_like_from,
        aten.randperm.default: _randperm, aten.multinomial.default: multinomial,
        **{op: _contiguous(op) for op in (aten.poisson.default, aten._standard_gamma.default, aten.binomial.default)},
    }  # fmt: skip


def plans() -> dict:
    """Operators that draw numbers such as a tensor holds → what they draw, of the tensor and their other arguments: (kind, a, b,
    low, high) of `hologram::draw`, or NotImplemented."""
    return {
        aten.uniform.default: _uniform, aten.normal_functional.default: _normal, aten.exponential.default: _exponential,
        aten.geometric.default: _geometric, aten.cauchy.default: _cauchy, aten.log_normal.default: _log_normal,
        aten.random.default: _random, aten.random.to: _random_to, getattr(aten.random, "from"): _random_from,
    }  # fmt: skip


def _as_new(plan):
    """The operator, which gives a new tensor."""

    def draw(x, *args, **options):
        found = plan(x, *args, **options)
        return found if found is NotImplemented else _numbers(found[0], torch.empty_like(x), *found[1:])

    return draw


def draws_as_pytorch(kind, like) -> bool:
    """Whether `kind` can be drawn for a tensor that lies as `like`."""
    if like.device.type != "cpu" or like.layout is not torch.strided or like.dtype not in NAME or not exact(kind, like.dtype):
        return False
    return kind in ("between", "any", "geometric", "permutation", "bernoulli") or NAME[like.dtype] in FLOATS


def _numbers(kind, like, a=0.0, b=0.0, low=0, high=0):
    """What `kind` draws for a tensor that lies as `like`."""
    if not draws_as_pytorch(kind, like):
        return NotImplemented
    return torch.ops.hologram.draw(
        kind, like.shape, like.stride(), float(a), float(b), low, high, dtype=like.dtype, device=like.device
    )


def _mask(like, p):
    return _numbers("bernoulli", like, p)


def dropout(x, p, train):
    if train is False or x.device.type != "cpu" or not x.is_floating_point():
        return NotImplemented
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    if guard_or_false(x.numel() == 0):  # which eager gives back
        return x, torch.zeros_like(x, dtype=torch.bool)
    if p == 1:  # torch.dropout draws nothing
        return x * 0.0, torch.zeros_like(x, dtype=torch.bool)
    mask = _mask(torch.empty_like(x, dtype=torch.bool), 1.0 - p)
    return NotImplemented if mask is NotImplemented else (x * mask * _scale(1.0 - p, x.dtype), mask)


def _dropout_backward(gradient, mask, scale):
    if gradient.device.type != "cpu":
        return NotImplemented
    return gradient * mask * (_scale(1.0 / scale, gradient.dtype) if scale else 0.0)  # 0: nothing was kept


def _scale(kept, dtype):
    """By what eager multiplies that is kept: a tensor's element, so that it is rounded."""
    with _disable_current_modes():
        return (torch.ones((), dtype=dtype) / kept).item()


def _bernoulli(x, p=0.5, generator=None):
    return bernoulli_like(torch.empty(x.shape, dtype=x.dtype, device=x.device), p, generator)


def bernoulli_like(x, p=0.5, generator=None):
    if generator is not None or not 0 <= p <= 1 or (x.dtype == torch.float64 and masks() == "mcg31"):
        return NotImplemented
    mask = _mask(torch.empty_like(x, dtype=torch.bool), p)
    return mask if mask is NotImplemented else mask.to(x.dtype)


def _bernoulli_of(x, generator=None):
    return _by_chances(torch.empty(x.shape, dtype=x.dtype, device=x.device), x, generator)


def bernoulli_by(x, p, generator=None):
    return _by_chances(torch.empty_like(x), p, generator)


def _by_chances(like, p, generator):
    if generator is not None or like.device.type != "cpu" or p.device.type != "cpu" or not p.is_floating_point():
        return NotImplemented
    if not exact("chances", p.dtype):
        return NotImplemented
    return torch.ops.hologram.chances(p.expand(like.shape), like.stride()).to(like.dtype)


def _made(kind, a, b):
    return lambda size, **options: _numbers(kind, torch.empty(size, **options), a, b)


def _made_like(kind, a, b):
    return lambda x, **options: _numbers(kind, torch.empty_like(x, **options), a, b)


def _uniform(x, low=0.0, high=1.0, generator=None):
    fits = NAME.get(x.dtype) in FLOATS and -_largest(x) <= low <= high <= _largest(x) and high - low <= _largest(x)
    return ("uniform", low, high) if fits and generator is None else NotImplemented


def _largest(x):
    return torch.finfo(x.dtype).max


def _normal(x, mean=0.0, std=1.0, generator=None):
    return ("normal", mean, std) if std >= 0 and generator is None else NotImplemented


def _normal_of_size(mean, std, size, generator=None, **options):
    return _as_new(_normal)(torch.empty(size, **options), mean, std, generator)


def _normal_around(mean, std=1.0, *, generator=None):
    x = torch.empty(mean.shape, dtype=mean.dtype, device=mean.device)
    numbers = _as_new(_normal)(x, 0.0, std, generator)
    return numbers if numbers is NotImplemented else numbers + mean


def _normal_by(mean, std, *, generator=None):
    """Numbers of the first tensor's type, however the other's is."""
    like = mean if isinstance(mean, torch.Tensor) else std
    if generator is not None or not draws_as_pytorch("normal", like) or std.device != like.device or not std.is_floating_point():
        return NotImplemented
    size = torch.broadcast_shapes(std.shape, like.shape)
    numbers = torch.ops.hologram.deviates(std, size, like.dtype)
    return ((numbers * std).to(like.dtype) + mean).to(like.dtype)


def _exponential(x, rate=1.0, generator=None):
    return ("exponential", rate) if 0 < rate < float("inf") and generator is None else NotImplemented


def _geometric(x, p, generator=None):
    return ("geometric", p) if 0 < p < 1 and generator is None else NotImplemented


def _cauchy(x, median=0.0, sigma=1.0, generator=None):
    return ("cauchy", median, sigma) if sigma > 0 and generator is None else NotImplemented


def _log_normal(x, mean=1.0, std=2.0, generator=None):
    return ("log_normal", mean, std) if std > 0 and generator is None else NotImplemented


def _between(like, low, high):
    return _numbers("between", like, low=low, high=high) if _holds(like.dtype, low, high) else NotImplemented


def _holds(dtype, low, high) -> bool:
    """Whether random_(low, high) takes these bounds for this type as they are."""
    if dtype not in NAME:
        return False
    if dtype.is_floating_point:
        return -most(dtype) <= low < high <= most(dtype)
    least, last = (0, 1) if dtype == torch.bool else INT_RANGE[NAME[dtype]]
    return least <= low < high and high - 1 <= last


def _randint(high, size, *, dtype=torch.int64, **options):
    return _between(torch.empty(size, dtype=dtype, **options), 0, high)


def _randint_from(low, high, size, *, dtype=torch.int64, **options):
    return _between(torch.empty(size, dtype=dtype, **options), low, high)


def _randint_like(x, high, **options):
    return _between(torch.empty_like(x, **options), 0, high)


def _randint_like_from(x, low, high, **options):
    return _between(torch.empty_like(x, **options), low, high)


def _random(x, generator=None):
    return ("any",) if generator is None else NotImplemented


def _random_to(x, to, generator=None):
    return _random_from(x, 0, to, generator)


def _random_from(x, low, high, generator=None):
    fits = generator is None and high is not None and _holds(x.dtype, low, high)
    return ("between", 0.0, 0.0, low, high) if fits else NotImplemented


def _randperm(n, *, dtype=torch.int64, **options):
    if dtype not in (torch.int32, torch.int64) or n < 0:
        return NotImplemented
    return _numbers("permutation", torch.empty((n,), dtype=dtype, **options))


def _contiguous(op):
    """The operator stays with PyTorch, whose result is contiguous, where tracing says that it lies as the operand."""

    def draw(x, *rest):
        return NotImplemented if x.is_contiguous() else op(x.contiguous(), *rest)

    return draw


def multinomial(p, n, replacement=False, *, generator=None):
    fits = generator is None and p.device.type == "cpu" and p.layout is torch.strided and p.dim() in (1, 2)
    if not fits or NAME.get(p.dtype) not in FLOATS or not choosing(p, n, replacement):
        return NotImplemented
    return torch.ops.hologram.choices(p, n, replacement, torch.empty_like(p).stride())
