# hologram_torch/accelerator/kernels.py: operators of device="hologram" by our kernels, one at a time
"""One rule for all operators: a call is captured as a graph of this operator alone, which the compiler of torch.compile's backend
makes a callable of. What is kept of it serves calls with arguments of the same types, sizes and strides; the second size brings a
graph of symbolic sizes. What is not wholly ours is left to fallback.py."""

import collections
import functools
import threading

import torch
from hologram import _core

from .. import holders
from . import capture, fallback, lazily, numbers, tensors

calls = collections.Counter()  # of those that Python has served
compiled = 0
LEFT = None  # in place of a callable: the operator is PyTorch's for such arguments
_NUMBERS = 4  # so many calls that differ in numbers alone are compiled; then these become tensors, or the operator PyTorch's
KEPT = 4096  # keys of an operator
_lock = threading.RLock()


class Operator:
    """An operator of the device: what serves calls of its native `front` with arguments that this one knows nothing of."""

    def __init__(self, op):
        self.op = op
        self.name = str(op)
        self.effects = fallback.effects(op)
        self.written = len(self.effects.written)
        self.made = {}  # key of arguments -> callable or LEFT
        self.graphs = collections.defaultdict(list)  # key without sizes -> graphs
        self.numbers = collections.defaultdict(set)  # key without numbers -> those seen
        self.operands = frozenset(a.name for a in op._schema.arguments if "Tensor" in str(a.type) or "number" in str(a.type))
        self.numeric = False  # whether numbers are tensors
        in_place = self.written > 0 and not self.effects.out
        self.front = _core.DeviceOperator(self.slow, self.left, in_place, [n in self.operands for n in self.effects.names], self.operands)

    def __call__(self, *args, **kwargs):
        return self.slow(args, kwargs)

    def slow(self, args, kwargs):
        result = self.ours(args, kwargs)
        return self.left(args, kwargs) if result is LEFT else result

    def left(self, args, kwargs):
        return fallback.run(self.op, *args, **kwargs)

    def ours(self, args, kwargs):
        """What our kernel gives, or LEFT."""
        flat = (*args, *kwargs.values()) if kwargs else args
        try:
            key = self.front.key(args, kwargs)
            call = self.made.get(key, self)
        except TypeError:  # an argument of a kind that no graph has
            return LEFT
        if call is self:
            call = self.make(key, flat, args, kwargs)
        if call is LEFT or self.written and not apart(self.targets(flat), flat):
            return LEFT
        calls[self.name] += 1
        return call(flat)

    def targets(self, flat):
        """What it writes."""
        return flat[:1]

    def capture(self, args, kwargs, symbolic, numeric):
        return capture.make(self.op, args, kwargs, symbolic, numeric)

    def numbers_among(self, flat, kwargs) -> tuple:
        """Positions of numbers that are operands: not of axes and the like."""
        names = (*self.effects.names[: len(flat) - len(kwargs)], *kwargs)
        return tuple(i for i, x in enumerate(flat) if type(x) in (int, float) and names[i] in self.operands)

    def make(self, key, flat, args, kwargs):
        with _lock:
            if key not in self.made:
                if len(self.made) >= KEPT:
                    self.made.clear()
                    self.front.clear(self.numeric)
                found = self.found(flat, args, kwargs)
                key = self.front.key(args, kwargs)  # which may be another one by now
                self.made[key] = found
                self.serve(key, found, flat, kwargs)
            return self.made[key]

    def serve(self, key, call, flat, kwargs):
        """Has the front serve such calls."""
        if call is LEFT:
            return self.front.put(key, None, None, 0, False)
        where = call.numeric  # which calls that wait give behind the tensors
        last = max((i for i, x in enumerate(flat) if isinstance(x, torch.Tensor)), default=0)
        waits = lazily.may_wait(flat) and all(i > last for i in where)
        self.front.put(key, call, call.direct, call.gives, waits)

    def found(self, flat, args, kwargs):
        """What serves calls with such arguments."""
        global compiled
        if not fits(flat):
            return LEFT
        coarse = tuple(map(_coarse, flat))
        where = self.numbers_among(flat, kwargs)
        without = tuple(type(x) if i in where else k for i, (x, k) in enumerate(zip(flat, coarse)))
        seen = self.numbers[without]
        numeric = where and (len(seen) >= _NUMBERS or self.numeric)
        if numeric and not (numbers.has_formula(self.op) and _is_wide(flat[0])):
            return LEFT
        if numeric and not self.numeric:
            self.numeric = True
            self.made.clear()
            self.front.clear(True)
        known = self.graphs[without if numeric else coarse]
        for graph in known:
            if graph is LEFT or graph.holds(flat):
                return graph
        seen.add(tuple(flat[i] for i in where))
        graph = self.capture(args, kwargs, bool(known), where if numeric else ())
        if graph is not LEFT:
            compiled += 1
        known.append(graph)
        return graph


def _is_wide(x) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in (torch.float32, torch.float64)


def _coarse(x):
    """The same without sizes."""
    if isinstance(x, torch.Tensor):
        return x.dtype, x.dim(), x.device.type, x.numel() == 0
    if isinstance(x, (list, tuple)):
        return tuple(map(_coarse, x))
    return type(x), repr(x)  # 0.0 equals -0.0


def fits(flat) -> bool:
    """Whether our kernels may take the arguments: tensors of the device without conjugate or negative bits, and single numbers of
    the host's."""
    some = False
    for t in tensors.among(flat):
        ours = tensors.is_ours(t)
        some |= ours
        if t.layout is not torch.strided or not ours and t.dim() or t.is_complex() or t.is_neg() or type(t) not in _PLAIN:
            return False
    return some


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def apart(written, flat) -> bool:
    """Whether each tensor that an operator writes shares memory with no other of its arguments, nor with itself."""
    for t in written:
        if any(n == 0 and size > 1 for n, size in zip(t.stride(), t.shape)):
            return False
        mine = t.untyped_storage().data_ptr()
        for other in tensors.among(flat):
            if other is not t and other.untyped_storage().data_ptr() == mine and holders.overlap(t, other):
                return False
    return True


@functools.cache
def operators() -> list:
    """The overloads of ATen for which there may be kernels: those that have a lowering or a decomposition, are no views, draw no
    random numbers, and that PyTorch does not take apart above the device's dispatch key."""
    from .. import lowering
    from ..capture import decomp

    table = decomp.table()
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        packet, _, overload = name[6:].partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if op is None or not _is_plain(op):
            continue
        functional = op
        if packet.endswith("_"):
            functional = getattr(getattr(torch.ops.aten, packet[:-1], None), overload or "default", None)
        if functional is not None and (functional in table or lowering.has_lowering(str(functional))):
            found.append(op)
    return found


_OWN = frozenset(
    "clone _to_copy copy_ copy lift lift_fresh lift_fresh_copy detach empty_like new_empty new_empty_strided resize_as_".split()
)


def _is_plain(op) -> bool:
    from ..translate import sharing

    name = op._schema.name.partition("::")[2]
    if name in _OWN or name.startswith("_foreach") or name in {n.partition(".")[0] for n in tensors.METADATA}:
        return False
    taken_apart = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    if taken_apart or torch.Tag.nondeterministic_seeded in op.tags:
        return False
    e = fallback.effects(op)
    if not any("Tensor" in str(a.type) for a in op._schema.arguments) or not op._schema.returns:
        return False
    in_place = name.endswith("_") and e.written == {"self"} and e.returns == (("self", True),) and not e.out
    views = any(a.alias_info is not None for a in op._schema.arguments) or sharing.is_view(op)
    return in_place or not views


class Copy(Operator):
    """aten::_copy_from: among tensors of the device as aten::copy_, where calls may wait."""

    def __init__(self):
        super().__init__(torch.ops.aten.copy_.default)

    def copy(self, source, target, non_blocking=False):
        if lazily.is_on() and lazily.may_wait((source, target)):
            return self.front(target, source)
        return tensors.copy_from(source, target)

    def left(self, args, kwargs):
        target, source = args
        return tensors.copy_from(source, target)


def counted() -> dict:
    """{operator: calls} that our kernels ran."""
    found = collections.Counter(calls)
    for kernel in _registered:
        found[kernel.name] += kernel.front.calls
    return {name: n for name, n in found.items() if n}


_registered = []


def register(library) -> dict:
    """→ {operator: its kernel}"""
    singletons = [torch.dtype, torch.layout, torch.memory_format]
    _core.tell_device_types(torch.Tensor.__dlpack_c_exchange_api__, list(_PLAIN), singletons, [torch.device])
    made = {op: Operator(op) for op in operators()}
    copy = Copy()
    _registered.extend((*made.values(), copy))
    library.impl("_copy_from", copy.copy, "PrivateUse1")
    for op, kernel in made.items():
        library.impl(op.name().partition("::")[2], kernel.front, "PrivateUse1")
    return made
