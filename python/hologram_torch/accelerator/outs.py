# hologram_torch/accelerator/outs.py: out= on device="hologram": operators that write their results into tensors given to them
"""Our kernel writes where the tensors have the result's dtype and sizes and share memory with no operand. The first call with an
empty tensor is PyTorch's; those that follow give it the sizes and strides that PyTorch did. Whatever eager converts, resizes with a
warning or refuses is PyTorch's, by fallback.py."""

import torch

from . import capture, fallback, kernels, tensors

aten = torch.ops.aten


class Out(kernels.Operator):
    """An overload with out=. functional: the one without; in_place: the kernel of the one that writes its first argument, or None."""

    def __init__(self, op, functional, in_place):
        super().__init__(op)
        self.functional, self.in_place = functional, in_place
        self.outs = self.effects.names[-self.written :]
        self.sizes = {}  # key of arguments with an empty tensor for a result -> sizes and strides of the results

    def __call__(self, *args, **kwargs):
        given = [kwargs[name] for name in self.outs]
        if all(t.numel() for t in given):
            return super().__call__(*args, **kwargs)
        try:
            key = self.front.key(args, kwargs)
        except TypeError:
            return fallback.run(self.op, *args, **kwargs)
        if key in self.sizes:
            resize(given, self.sizes[key])
            return super().__call__(*args, **kwargs)
        result = fallback.run(self.op, *args, **kwargs)
        if len(self.sizes) >= kernels.KEPT:
            self.sizes.clear()
        self.sizes[key] = [(tuple(t.shape), t.stride()) for t in given]
        return result

    def ours(self, args, kwargs):
        given = [kwargs[name] for name in self.outs]
        if not all(map(tensors.is_ours, given)):
            return kernels.LEFT
        if args and given[0] is args[0]:
            others = {name: x for name, x in kwargs.items() if name not in self.outs}
            return self.in_place.ours(args, others) if self.in_place else kernels.LEFT
        return super().ours(args, kwargs)

    def serve(self, key, call, flat, kwargs):
        """Calls come here."""

    def targets(self, flat):
        return flat[-self.written :]

    def capture(self, args, kwargs, symbolic, numeric):
        return capture.make(self.functional, args, kwargs, symbolic, numeric, self.outs)


def resize(given, wanted):
    """Gives empty tensors sizes and strides, but for those that have the sizes."""
    for t, (size, strides) in zip(given, wanted):
        if not t.numel() and t.shape != size:
            tensors.resize(t, size)
            if t.stride() != strides:
                aten.set_.source_Storage_storage_offset(t, t.untyped_storage(), t.storage_offset(), size, strides)


def pairs() -> list:
    """(overload with out=, the functional one of the same arguments, the one in place or None) for whose functional one there may be
    kernels."""
    mine = set(kernels.operators())
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        packet, _, overload = name[6:].partition(".")
        op = getattr(getattr(aten, packet, None), overload or "default", None)
        effects = fallback.effects(op) if op is not None else None
        if effects is None or not effects.out or effects.written != effects.out or len(op._schema.returns) != len(effects.out):
            continue
        functional = _same(packet, _arguments(op)[: -len(effects.out)], mine)
        if functional is not None and all(str(r.type) == "Tensor" for r in op._schema.returns):
            found.append((op, functional, _same(packet + "_", _arguments(functional), mine)))
    return found


def _same(packet, arguments, among):
    """The overload of these arguments that is one of `among`, or None."""
    packet = getattr(aten, packet, None)
    overloads = [getattr(packet, name) for name in packet.overloads()] if packet is not None else []
    return next((op for op in overloads if op in among and _arguments(op) == arguments), None)


def _arguments(op) -> list:
    return [(a.name, str(a.type)) for a in op._schema.arguments]


def register(library, made):
    """made: {operator: its kernel} of those without out=."""
    for op, functional, in_place in pairs():
        library.impl(op.name().partition("::")[2], Out(op, functional, made.get(in_place)), "PrivateUse1")
