# hologram_torch/capture/draws.py: random numbers that PyTorch would draw, drawn natively
"""PyTorch's generator of the CPU is MT19937, and its kernels take its numbers one by one: two of 32 bits for each element of a
dropout mask. `hologram::bernoulli` and `hologram::uniform` take the same ones many at a time and leave the generator as PyTorch's
kernel would. On Intel's processors PyTorch draws masks by MKL: there, and wherever else numbers differ, its own operators stay."""

import functools

import torch
from hologram import _core
from torch.utils._python_dispatch import _disable_current_modes

aten = torch.ops.aten
_library = torch.library.Library("hologram", "FRAGMENT")
_DTYPES = {"bernoulli": torch.bool, "uniform": torch.float32}
_P = {"bernoulli": ", float p", "uniform": ""}
for _kind in _DTYPES:
    _library.define(
        f"{_kind}(SymInt[] size, SymInt[] stride{_P[_kind]}, *, Device device) -> Tensor",
        tags=(torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag),
    )


def _empty(kind, size, stride, *_, device):
    return torch.empty_strided(size, stride, dtype=_DTYPES[kind], device=device)


def _drawn(kind, size, stride, *p, device):
    """A dense tensor, its numbers in the order of its memory."""
    out = _empty(kind, size, stride, device=device)
    if not exact():  # compiled on another machine
        return out.bernoulli_(*p) if p else out.uniform_()
    state = torch.get_rng_state()
    _draw(kind, state, out, *p)
    torch.set_rng_state(state)
    return out


def _draw(kind, state, out, *p):
    _core.draw(kind, state.data_ptr(), state.numel(), out.data_ptr(), out.numel(), *p)


for _kind in _DTYPES:
    _library.impl(_kind, functools.partial(_drawn, _kind), "CompositeExplicitAutograd")
    _library.impl(_kind, functools.partial(_empty, _kind), "Meta")


@functools.cache
def exact() -> bool:
    """Whether PyTorch's kernels draw what ours do, and leave their generator as ours."""
    with _disable_current_modes():
        generator = torch.Generator()
        generator.manual_seed(1)
        for kind, dtype in _DTYPES.items():
            state, found = generator.get_state(), torch.empty(700, dtype=dtype)
            expected = torch.empty(700, dtype=dtype)
            p = (0.3,) if kind == "bernoulli" else ()
            _draw(kind, state, found, *p)
            expected.bernoulli_(*p, generator=generator) if p else expected.uniform_(generator=generator)
            if not torch.equal(found, expected) or not torch.equal(state, generator.get_state()):
                return False
        return True


def table() -> dict:
    """Operators that draw, by what draws natively."""
    if not exact():
        return {}
    return {
        aten.native_dropout.default: _dropout, aten.native_dropout_backward.default: _dropout_backward,
        aten.bernoulli.p: _bernoulli, aten.rand.default: _rand,
        aten.rand_like.default: _rand_like, aten.uniform.default: _uniform,
    }  # fmt: skip


def _mask(like, p):
    return torch.ops.hologram.bernoulli(like.shape, like.stride(), p, device=like.device)


def _dropout(x, p, train):
    if train is False or x.device.type != "cpu" or not x.is_floating_point():
        return NotImplemented
    if p == 1:  # torch.dropout draws nothing
        return x * 0.0, torch.zeros_like(x, dtype=torch.bool)
    mask = _mask(torch.empty_like(x, dtype=torch.bool), 1.0 - p)
    return x * mask * _scale(1.0 - p, x.dtype), mask


def _dropout_backward(gradient, mask, scale):
    if gradient.device.type != "cpu" or scale == 0:
        return NotImplemented
    return gradient * mask * _scale(1.0 / scale, gradient.dtype)


def _scale(kept, dtype):
    """By what eager multiplies that is kept: a tensor's element, so that it is rounded."""
    with _disable_current_modes():
        return (torch.ones((), dtype=dtype) / kept).item()


def _bernoulli(x, p=0.5, generator=None):
    if generator is not None or x.device.type != "cpu" or not 0 <= p <= 1:
        return NotImplemented
    return _mask(torch.empty(x.shape, dtype=torch.bool), p).to(x.dtype)


def _numbers(like):
    if like.device.type != "cpu" or like.dtype != torch.float32 or like.layout is not torch.strided:
        return NotImplemented
    return torch.ops.hologram.uniform(like.shape, like.stride(), device=like.device)


def _rand(size, **options):
    return _numbers(torch.empty(size, **options))


def _rand_like(x, **options):
    return _numbers(torch.empty_like(x, **options))


def _uniform(x, low=0.0, high=1.0, generator=None):
    return NotImplemented if (low, high) != (0, 1) or generator is not None else _numbers(torch.empty_like(x))
