# hologram_torch/accelerator/fallback.py: operators of device="hologram" that PyTorch's kernels for the host run
"""They read and write the device's memory where it lies. Each call is counted."""

import collections
import dataclasses
import functools

import torch

from . import tensors

calls = collections.Counter()
# Whose operands may be on the host beside others on the device, as on a GPU.
_MIXED = frozenset("index index_put index_put_ _index_put_impl_ _unsafe_index _unsafe_index_put _copy_from set_ copy_".split())


@dataclasses.dataclass(frozen=True)
class _Effects:
    """What an operator does to its arguments. written: their names; out: those of them that are results' memory; returns: by
    result, (name, whether it is the argument itself, not a view of it) or None."""

    names: tuple
    written: frozenset
    out: frozenset
    returns: tuple
    mixed: bool


@functools.cache
def effects(op) -> _Effects:
    schema = op._schema
    sets = {a.name: a.alias_info for a in schema.arguments if a.alias_info is not None}
    written = {name for name, info in sets.items() if info.is_write}
    returns = []
    for r in schema.returns:
        of = [name for name, info in sets.items() if r.alias_info is not None and info.before_set & r.alias_info.before_set]
        returns.append((of[0], of[0] in written) if of else None)
    out = {a.name for a in schema.arguments if a.kwarg_only and a.name in written}
    mixed = op._schema.name.partition("::")[2] in _MIXED
    return _Effects(tuple(a.name for a in schema.arguments), frozenset(written), frozenset(out), tuple(returns), mixed)


def run(op, *args, **kwargs):
    """The operator by PyTorch's kernel for the host, on the same memory."""
    calls[str(op)] += 1
    call = _Call(op)
    named = dict(zip(call.effects.names, args)) | kwargs
    try:
        result = call.run(named, args, kwargs)
    except RuntimeError as error:
        if not call.effects.out or "resiz" not in str(error):
            raise
        call = _Call(op, fresh=True)
        result = call.run(named, args, kwargs)
    return result


class _Call:
    """One call. fresh: memory for results is new, and given to the tensors afterwards."""

    def __init__(self, op, fresh=False):
        self.op, self.fresh, self.effects = op, fresh, effects(op)
        self.made = {}  # id of a tensor of the device -> (it, the host's)

    def run(self, named, args, kwargs):
        names = self.effects.names
        self.share([t for t in tensors.among((*args, *kwargs.values())) if tensors.is_ours(t)])
        hosts = [self.convert(x, names[i]) for i, x in enumerate(args)]
        hosted = {name: self.convert(x, name) for name, x in kwargs.items()}
        if not self.effects.mixed:
            _check_devices(self.op, (*args, *kwargs.values()))
        out = self.op(*hosts, **hosted)
        for ours, host in self.made.values():
            if host.shape != ours.shape or host.stride() != ours.stride():
                self.reshaped(ours, host)
        if isinstance(out, tuple):
            given = (*self.effects.returns, *[None] * len(out))
            return tuple(self.result(r, given[i], named) for i, r in enumerate(out))
        return self.result(out, self.effects.returns[0] if self.effects.returns else None, named)

    def share(self, ours):
        """The host's tensors share a storage where those of the device do, as operators look for operands that overlap."""
        if len(ours) < 2 or len({t.untyped_storage().data_ptr() for t in ours}) == len(ours):
            return
        storages = {}
        for t in ours:
            if id(t) not in self.made:
                self.made[id(t)] = (t, tensors.on_host(t, storages))

    def convert(self, x, name):
        kind = type(x)
        if kind in (list, tuple):
            return [self.convert(v, name) for v in x]
        if kind is torch.device:
            return torch.device("cpu")
        if not tensors.is_ours(x):
            return x
        found = self.made.get(id(x))
        if found is None:
            new = name in self.effects.out and (self.fresh or x.numel() == 0)
            host = torch.empty(0, dtype=x.dtype) if new else tensors.on_host(x)
            found = self.made[id(x)] = (x, host)
        return found[1]

    def reshaped(self, ours, host):
        """The operator gave a written tensor other sizes."""
        if not host.numel() or ours.numel() and host.data_ptr() == ours.data_ptr():
            torch.ops.aten.set_.source_Storage_storage_offset(
                ours, ours.untyped_storage(), ours.storage_offset(), host.shape, host.stride()
            )
        else:
            tensors.adopt(ours, tensors.on_device(host))

    def result(self, r, of, named):
        if isinstance(r, (list, tuple)):
            return [self.result(v, of, named) for v in r]
        if not isinstance(r, torch.Tensor):
            return r
        if of is None:
            return tensors.on_device(r)
        given, itself = named[of[0]], of[1]
        if isinstance(given, (list, tuple)):
            given = next((t for t in given if tensors.is_ours(t) and self.made[id(t)][1] is r), given[0])
        if itself:
            return given
        start = (r.data_ptr() - given.data_ptr()) // max(r.element_size(), 1) if r.numel() else 0
        base = given if given.dtype == r.dtype else given.view(r.dtype)
        return torch.ops.aten.as_strided.default(base, r.shape, r.stride(), base.storage_offset() + start)


def _check_devices(op, values):
    """Raises RuntimeError for tensors of the host beside those of the device, but for single numbers, as a GPU's kernels do."""
    here = elsewhere = False
    for x in values:
        for t in x if isinstance(x, (list, tuple)) else (x,):
            if isinstance(t, torch.Tensor):
                ours = tensors.is_ours(t)
                here |= ours
                elsewhere |= not ours and t.dim() > 0
    if here and elsewhere:
        raise RuntimeError(f"Expected all tensors to be on the same device, but {op} got some on hologram:0 and some on cpu")
