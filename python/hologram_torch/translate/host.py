# hologram_torch/translate/host.py: operators that PyTorch runs inside a compiled graph
import pickle

import torch

from .. import counters
from ..graph.formula import Formula


class _Operand:
    """Stands for a tensor of the call in an argument template."""

    def __init__(self, index):
        self.index = index


class _Size(_Operand):
    """Stands for an integer of the call."""


class _Number(_Operand):
    """Stands for a float that a tensor of the call holds."""


def _fill(template, operands, sizes):
    kind = type(template)
    if kind is _Operand:
        return operands[template.index]
    if kind is _Number:
        return operands[template.index].item()
    if kind is _Size:
        return sizes[template.index]
    if kind is list:
        return [_fill(x, operands, sizes) for x in template]
    if kind is tuple:
        return tuple(_fill(x, operands, sizes) for x in template)
    if kind is dict:
        return {k: _fill(x, operands, sizes) for k, x in template.items()}
    return template


class Stored:
    """How the graph states that an operand is stored. strides: ints and sizes of the call, None: as it comes; axes: the
    permutation that takes the operand as given to the operator's, or None."""

    def __init__(self, strides=None, axes=None):
        self.strides, self.axes = strides, axes

    def __call__(self, tensor, sizes):
        if self.axes is not None:
            tensor = tensor.permute(self.axes)
        if self.strides is None:
            return tensor
        return with_strides(tensor, _fill(self.strides, (), sizes))


_CONTROL = ("cond", "while_loop", "while_loop_stack_output")
_BODIES = (*_CONTROL, "scan", "map_impl")


def runs_bodies(target) -> bool:
    """Whether an operator calls graphs among its arguments with tensors as these were traced for."""
    return isinstance(target, torch._ops.HigherOrderOperator) and target._name in _BODIES


_DRAWS = tuple(f"hologram.{name}.default" for name in ("draw", "chances", "deviates", "choices"))
_CHECKS = ("aten._linalg_check_errors.default",)


def counts(target, name) -> bool:
    """Whether PyTorch computes in a call of an operator: not where it only chooses which body runs, looks at what was found, or
    keeps the generator of what draws natively. name: of the operator that `target` calls."""
    return name not in _DRAWS + _CHECKS and not (isinstance(target, torch._ops.HigherOrderOperator) and target._name in _CONTROL)


def constant(value):
    """The value itself: a result that no graph computes."""
    return value


class HostCall:
    """One operator with its constant arguments; tensors and sizes are filled in at each call."""

    counted = True  # as an operator without a native kernel

    def __init__(self, target, name, args, kwargs, stored=()):
        self.target, self.name = target, name
        self.args, self.kwargs = args, kwargs
        self.stored = stored  # by operand; operators may trust the strides that tracing showed them
        self.viewed = ()  # operands of PyTorch's own that a result may be a view of
        self.results = []  # (index in the operator's result or None, dtype or None for values of the host, shape)

    def __getstate__(self):
        """Operators by their names. Raises PicklingError for what another process could not find: a higher-order operator."""
        if isinstance(self.target, torch._ops.OpOverload):
            return vars(self) | {"target": (*self.target._schema.name.split("::"), self.target._overloadname)}
        if isinstance(self.target, torch._ops.OperatorBase):
            raise pickle.PicklingError(f"{self.name} is no operator that another process could find")
        return vars(self)

    def __setstate__(self, state):
        target = state["target"]
        if type(target) is tuple:
            space, name, overload = target
            target = getattr(getattr(getattr(torch.ops, space), name), overload)
        vars(self).update(state, target=target)

    def ready(self):
        """Makes what calls need that is kept in no file: nothing."""

    def __call__(self, operands, sizes, strides):
        if self.counted:
            counters.count_fallback(self.name)
        self.prepare(operands, sizes)
        out = self.target(
            *[_fill(x, operands, sizes) for x in self.args],
            **{k: _fill(x, operands, sizes) for k, x in self.kwargs.items()},
        )
        shared = self.foreign(operands)
        results = []
        for (path, dtype, shape), wanted in zip(self.results, strides):
            value = out
            for index in path:
                value = value[index]
            results.append(_conform(value, dtype, shape, wanted, shared, self.name))
        return results

    def prepare(self, operands, sizes):
        """Makes each operand what the operator was traced with."""
        for index, stored in enumerate(self.stored):
            operands[index] = stored(operands[index], sizes)

    def foreign(self, operands):
        """Memory that no result may share."""
        shared = {_storage(t) for index, t in enumerate(operands) if index not in self.viewed}
        shared.discard(None)
        return shared


def _storage(tensor):
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (AttributeError, NotImplementedError, RuntimeError):  # no tensor, or one without memory
        return None


def _has_strides(tensor, strides) -> bool:
    """Whether every element lies where these strides say."""
    if tensor.numel() == 0:
        return True
    return all(a == b or n == 1 for a, b, n in zip(tensor.stride(), strides, tensor.shape, strict=True))


def with_strides(tensor, strides):
    """The tensor, or a copy of it, with exactly these strides. Where they are 0 the tensor repeats one place."""
    if tuple(tensor.stride()) == tuple(strides):
        return tensor
    if _has_strides(tensor, strides):
        return tensor.as_strided(tensor.shape, strides)
    return _laid_out(tensor, strides)


def _laid_out(tensor, strides):
    target = out = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    for axis, stride in enumerate(strides):
        if stride == 0:
            target, tensor = target.narrow(axis, 0, 1), tensor.narrow(axis, 0, 1)
    target.copy_(tensor)
    return out


class Traced:
    """How tracing saw a tensor: makes others so. What PyTorch's kernels and loops give may lie otherwise in memory."""

    def __init__(self, fake):
        sizes = {n.node.expr: axis for axis, n in enumerate(fake.shape) if type(n) is not int}
        self._shape = [n if type(n) is int else None for n in fake.shape]
        self._strides = [n if type(n) is int else Formula.of(n.node.expr, sizes) for n in fake.stride()]

    @classmethod
    def of(cls, fake):
        """None: any tensor will do."""
        plain = isinstance(fake, torch.Tensor) and fake.layout is torch.strided and not fake.is_quantized and not fake.is_nested
        return cls(fake) if plain else None

    def __call__(self, tensor, name):
        if len(tensor.shape) != len(self._shape) or any(n not in (m, None) for n, m in zip(self._shape, tensor.shape)):
            raise RuntimeError(f"hologram: {name} gave {tuple(tensor.shape)} where tracing promised another size")
        if None in self._strides:
            return tensor
        return with_strides(tensor, [n if type(n) is int else n(tensor.shape) for n in self._strides])


def as_traced(kinds, values, name):
    """A tree of values with tensors as the Traced in the tree `kinds` say."""
    if isinstance(kinds, (list, tuple)):
        return type(values)(as_traced(k, v, name) for k, v in zip(kinds, values, strict=True))
    return values if kinds is None or values is None else kinds(values, name)


def _copy(tensor):
    """With the strides of the tensor, which may have gaps."""
    if tensor.layout is not torch.strided or tensor.dtype.is_complex or 0 in tensor.stride():
        return tensor.clone()
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _conform(tensor, dtype, shape, strides, shared, name):
    """The result as it was promised: dtype, strides, memory of its own."""
    if dtype is None:
        return _copy(tensor) if _storage(tensor) in shared else tensor
    if tensor.dtype != dtype:
        tensor = tensor.to(dtype)
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if shape is not None and tensor.shape != shape:
        raise RuntimeError(f"hologram: {name} gave {tuple(tensor.shape)} where tracing promised {tuple(shape)}")
    if strides is not None:
        if _has_strides(tensor, strides) and _storage(tensor) not in shared:
            return tensor
        return _laid_out(tensor, strides)
    return tensor.clone() if _storage(tensor) in shared else tensor


class HostTable:
    """The host calls of one graph, by number; the native side calls it."""

    def __init__(self):
        self.calls = []
        self.fault = None  # what tells of an index out of range (translate/faults.py); the native side asks it

    def add(self, call: HostCall) -> int:
        self.calls.append(call)
        return len(self.calls) - 1

    def ready(self):
        """After the table was loaded: makes what its calls need."""
        for call in self.calls:
            call.ready()

    def __call__(self, callee, operands, sizes, strides):
        return self.calls[callee](operands, sizes, strides)
