# hologram_torch/accelerator/draws.py: random numbers on device="hologram", drawn natively
"""Numbers, and the host's generator after them, are those that PyTorch's kernels for the host would give. What is not known to be so,
and a few numbers, for which reading and writing the generator's state would take longer, PyTorch draws."""

import torch

from ..capture import draws, random_operators
from . import fallback, kernels, tensors

aten = torch.ops.aten
FEW = 2048


def register(library):
    planned = {in_place(op): _planned(plan) for op, plan in random_operators.plans().items()}
    masks = {aten.bernoulli_.float: random_operators.bernoulli_like, aten.bernoulli_.Tensor: random_operators.bernoulli_by}
    for op, draw in (planned | {op: _copied(rule) for op, rule in masks.items()}).items():
        library.impl(op.name().partition("::")[2], _drawn(op, draw), "PrivateUse1")
    library.impl("native_dropout", _dropped, "PrivateUse1")
    library.impl("randperm.generator_out", _permuted, "PrivateUse1")
    library.impl("multinomial", _chosen, "PrivateUse1")


def in_place(op):
    """The operator that draws into its first argument."""
    name, _, overload = op.name().partition("::")[2].partition(".")
    return getattr(getattr(aten, name.removesuffix("_functional") + "_"), overload or "default")


def _planned(plan):
    """Draws into a tensor what `plan` says; whether it did."""

    def draw(host, *args, **kwargs):
        found = plan(host, *args, **kwargs)
        if found is NotImplemented or not random_operators.draws_as_pytorch(found[0], host):
            return False
        draws.fill(host, *found)
        return True

    return draw


def _copied(rule):
    """The same by what gives a new tensor."""

    def draw(host, *args, **kwargs):
        made = rule(host, *args, **kwargs)
        if made is NotImplemented:
            return False
        host.copy_(made)
        return True

    return draw


def _drawn(op, draw):
    """The operator `op` of the device."""
    name = str(op)

    def call(self, *args, **kwargs):
        flat = (self, *args)
        if self.numel() >= FEW and kernels.fits(flat) and kernels.apart(flat[:1], flat):
            host = tensors.on_host(self)
            dense = torch.empty_like(host).stride() == host.stride()  # so that numbers are drawn in the order of memory
            if dense and draw(host, *(tensors.on_host(x) if tensors.is_ours(x) else x for x in args), **kwargs):
                kernels.calls[name] += 1
                return self
        return fallback.run(op, self, *args, **kwargs)

    return call


def _dropped(x, p, train):
    """aten::native_dropout"""
    made = NotImplemented
    if x.numel() >= FEW and kernels.fits((x,)):
        made = random_operators.dropout(tensors.on_host(x), p, train)
    if made is NotImplemented:
        return fallback.run(aten.native_dropout.default, x, p, train)
    kernels.calls["aten.native_dropout.default"] += 1
    return tuple(map(tensors.on_device, made))


def _permuted(n, *, generator=None, out):
    """aten::randperm.generator_out"""
    op = aten.randperm.generator_out
    fits = n >= FEW and generator is None and tensors.is_ours(out) and out.shape == (n,) and out.is_contiguous()
    if not fits or out.dtype not in (torch.int32, torch.int64) or not draws.exact("permutation", out.dtype):
        return fallback.run(op, n, generator=generator, out=out)
    draws.fill(tensors.on_host(out), "permutation")
    kernels.calls[str(op)] += 1
    return out


def _chosen(p, n, replacement=False, *, generator=None):
    """aten::multinomial"""
    op, made = aten.multinomial.default, NotImplemented
    if p.numel() >= FEW and kernels.fits((p,)):
        made = random_operators.multinomial(tensors.on_host(p), n, replacement, generator=generator)
    if made is NotImplemented:
        return fallback.run(op, p, n, replacement, generator=generator)
    kernels.calls[str(op)] += 1
    return tensors.on_device(made)
