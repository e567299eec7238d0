# hologram_torch/capture/draws.py: random numbers that PyTorch would draw, drawn natively
"""PyTorch's generator of the CPU is MT19937, and its kernels take its numbers one by one. `hologram::draw` takes the same ones many at
a time, makes of them what PyTorch's kernels make, bit for bit, and leaves the generator as they would. Where they differ from what is
known here (another processor, another version), PyTorch's own operator stays: each kind is tried before it is used."""

import functools

import torch
from hologram import _core
from torch.utils._python_dispatch import _disable_current_modes

from .. import runtimes
from ..graph.dtypes import NAME

_library = torch.library.Library("hologram", "FRAGMENT")
_TAGS = (torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag)
_library.define(
    "draw(str kind, SymInt[] size, SymInt[] stride, float a, float b, SymInt low, SymInt high, *, ScalarType dtype, Device device)"
    " -> Tensor",
    tags=_TAGS,
)
_library.define("chances(Tensor p, SymInt[] stride) -> Tensor", tags=_TAGS)
_library.define("deviates(Tensor deviation, SymInt[] size, ScalarType dtype) -> Tensor", tags=_TAGS)
_library.define("choices(Tensor p, SymInt n, bool again, SymInt[] stride) -> Tensor", tags=_TAGS)

# kind → what draws it by PyTorch, and arguments to try it with
KINDS = {
    "bernoulli": (lambda x, a, b, low, high, **g: x.bernoulli_(a, **g), (0.3, 0.0)),
    "uniform": (lambda x, a, b, low, high, **g: x.uniform_(a, b, **g), (-0.7, 1.9)),
    "normal": (lambda x, a, b, low, high, **g: x.normal_(a, b, **g), (0.3, 1.7)),
    "log_normal": (lambda x, a, b, low, high, **g: x.log_normal_(a, b, **g), (0.3, 0.7)),
    "cauchy": (lambda x, a, b, low, high, **g: x.cauchy_(a, b, **g), (0.3, 1.7)),
    "exponential": (lambda x, a, b, low, high, **g: x.exponential_(a, **g), (1.7, 0.0)),
    "geometric": (lambda x, a, b, low, high, **g: x.geometric_(a, **g), (0.3, 0.0)),
    "between": (lambda x, a, b, low, high, **g: x.random_(low, high, **g), (0.0, 0.0)),
    "any": (lambda x, a, b, low, high, **g: x.random_(**g), (0.0, 0.0)),
    "permutation": (lambda x, a, b, low, high, **g: torch.randperm(len(x), out=x, **g), (0.0, 0.0)),
}
_SHORT = 1 << 28  # ranges that a number of 32 bits serves


def _fake(kind, size, stride, a, b, low, high, *, dtype, device):
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


def _draw(kind, size, stride, a, b, low, high, *, dtype, device):
    """A dense tensor, its numbers in the order of its memory."""
    out = torch.empty_strided(size, stride, dtype=dtype, device=device)
    if not exact(kind, dtype):  # compiled on another machine
        return KINDS[kind][0](out, a, b, low, high)
    fill(out, kind, a, b, low, high)
    return out


def fill(out, kind, a=0.0, b=0.0, low=0, high=0):
    """Draws into a dense tensor what is `exact`."""
    state = torch.get_rng_state()
    _into(out, state, kind, a, b, low, high)
    torch.set_rng_state(state)


def _into(out, state, kind, a, b, low, high):
    if kind == "bernoulli":
        kind = masks()
        if kind == "mcg31" and not out.is_contiguous():  # in the order of the elements
            rows = torch.empty(out.shape, dtype=out.dtype)
            _call(kind, state, rows, a)
            out.copy_(rows)
            return
    elif kind == "normal" and not out.is_contiguous():
        kind = "pairs"
    elif kind in ("between", "any"):
        count, base, kind = _range(kind, out.dtype, low, high)
        _call(kind, state, out, 0.0, 0.0, count, base)
        return
    _call(kind, state, out, a, b)


def _range(kind, dtype, low, high):
    """How many integers there are, the first of them, and how they are made."""
    if kind == "between":
        return high - low, low, "integers" if high - low < _SHORT else "long_integers"
    wide = dtype in (torch.int64, torch.float64)
    return most(dtype) + 1, 0, "long_integers" if wide else "integers"


def most(dtype) -> int:
    """The largest integer that random_() draws."""
    if dtype.is_floating_point:
        return round(2 / torch.finfo(dtype).eps)
    return 1 if dtype == torch.bool else torch.iinfo(dtype).max


def _call(kind, state, out, *numbers):
    runtime, count = runtimes.runtime(), runtimes.thread_count()
    if count is not None and runtime.num_threads != count():
        runtime.num_threads = count()
    _core.draw(kind, NAME[out.dtype], state.data_ptr(), state.numel(), out.data_ptr(), out.numel(), *numbers, runtime=runtime)


def _chances(p, stride):
    """1 with the probability at each place of p, else 0: an element of p's type."""
    out = torch.empty_strided(p.shape, stride, dtype=p.dtype).copy_(p)
    if not exact("chances", p.dtype) or not ((out >= 0) & (out <= 1)).all():  # which PyTorch refuses
        return torch.empty_like(out).bernoulli_(out)
    state = torch.get_rng_state()
    _call("chances", state, out)
    torch.set_rng_state(state)
    return out


def _deviates(deviation, size, dtype):
    """Normal numbers of the mean 0 and the deviation 1, which someone multiplies by `deviation`."""
    if not (deviation >= 0).all():
        torch.normal(0.0, deviation)  # which tells what is wrong
    return _draw("normal", size, torch.empty(size, device="meta").stride(), 0.0, 1.0, 0, 0, dtype=dtype, device=deviation.device)


def _choices(p, n, again, stride):
    """n places of each row of p by their probabilities. stride: how the numbers lie that those are divided by."""
    if choosing(p, n, again):
        state = torch.get_rng_state()
        out = _choose(p, state, n, again, stride)
        if out is not None:
            torch.set_rng_state(state)
            return out
    return torch.multinomial(p, n, again)  # which tells what is wrong


def choosing(p, n, again) -> bool:
    """Whether PyTorch chooses n places of these rows, and by our numbers."""
    fits = p.numel() > 0 and 0 < n and (again or n <= p.shape[-1]) and p.shape[-1] < 1 << 24
    return fits and exact("choices again" if again and n > 1 else "choices", p.dtype)


def _choose(p, state, n, again, stride):
    """None: p has no probabilities."""
    out = torch.empty((*p.shape[:-1], n), dtype=torch.int64)
    if again and n > 1:
        numbers = torch.empty(out.shape, dtype=torch.float64)
        _call("uniform", state, numbers, 0.0, 1.0)
    else:
        again, numbers = False, torch.empty_strided(p.shape, stride, dtype=p.dtype)
        _call("exponential", state, numbers, 1.0)
    p, numbers = p.contiguous(), numbers.contiguous()
    places = out.data_ptr(), out.numel() // n, p.shape[-1], n
    return out if _core.choose(NAME[p.dtype], p.data_ptr(), numbers.data_ptr(), *places, again) else None


def _fake_choices(p, n, again, stride):
    return torch.empty((*p.shape[:-1], n), dtype=torch.int64, device=p.device)


_library.impl("draw", _draw, "CompositeExplicitAutograd")
_library.impl("draw", _fake, "Meta")
_library.impl("chances", _chances, "CompositeExplicitAutograd")
_library.impl("deviates", _deviates, "CompositeExplicitAutograd")
_library.impl("deviates", lambda x, size, dtype: torch.empty(size, dtype=dtype, device=x.device), "Meta")
_library.impl("choices", _choices, "CompositeExplicitAutograd")
_library.impl("choices", _fake_choices, "Meta")
_library.impl("chances", lambda p, stride: torch.empty_strided(p.shape, stride, dtype=p.dtype, device=p.device), "Meta")


@functools.cache
def exact(kind: str, dtype) -> bool:
    """Whether PyTorch's kernels draw what ours do, and leave their generator as ours. bernoulli: masks of truth values."""
    return bool(masks()) if kind == "bernoulli" else _agree(kind, kind, dtype)


@functools.cache
def masks():
    """How PyTorch draws masks on this machine: on Intel's processors by MKL."""
    return next((way for way in ("bernoulli", "mcg31") if _agree(way, "bernoulli", torch.bool)), None)


def _agree(way, kind, dtype) -> bool:
    with _disable_current_modes():
        generator = torch.Generator()
        for size in (700, 7, 8):  # blocks and what is left of them; pairs, and halves of them
            state = generator.manual_seed(size).get_state()
            if kind == "chances":
                found = torch.linspace(0, 1, size, dtype=dtype)
                expected = torch.empty_like(found).bernoulli_(found, generator=generator)
                _call(kind, state, found)
            elif kind.startswith("choices"):
                p, n, again = torch.linspace(0, 1, 2 * size, dtype=dtype).reshape(2, size), size - 1, kind != "choices"
                p[:, ::3] = 0  # so that places of nothing are among what is chosen once
                expected = torch.multinomial(p, n, again, generator=generator)
                found = _choose(p, state, n, again, p.stride())
            else:
                found, expected = torch.empty(size, dtype=dtype), torch.empty(size, dtype=dtype)
                call, numbers = KINDS[kind]
                call(expected, *numbers, 0, 101, generator=generator)
                if kind == "bernoulli":
                    _call(way, state, found, *numbers)
                else:
                    _into(found, state, kind, *numbers, 0, 101)
            if not torch.equal(found, expected) or not torch.equal(state, generator.get_state()):
                return False
        return True
