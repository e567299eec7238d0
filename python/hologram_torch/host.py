# hologram_torch/host.py: operators that PyTorch runs inside a compiled graph
import torch

from . import counters


class _Operand:
    """Stands for a tensor of the call in an argument template."""

    def __init__(self, index):
        self.index = index


class _Size(_Operand):
    """Stands for an integer of the call."""


def _fill(template, operands, sizes):
    kind = type(template)
    if kind is _Operand:
        return operands[template.index]
    if kind is _Size:
        return sizes[template.index]
    if kind is list:
        return [_fill(x, operands, sizes) for x in template]
    if kind is tuple:
        return tuple(_fill(x, operands, sizes) for x in template)
    if kind is dict:
        return {k: _fill(x, operands, sizes) for k, x in template.items()}
    return template


# Operators whose meaning depends on how their operand is stored.
_BY_STORAGE = ("as_strided", "view", "reshape", "unfold", "real", "imag", "_copy", "set_", "view_as")


class HostCall:
    """One operator with its constant arguments; tensors and sizes are filled in at each call."""

    def __init__(self, target, name, args, kwargs, operand_strides):
        self.target, self.name = target, name
        self.args, self.kwargs = args, kwargs
        short = name.split(".")[1] if "." in name else name
        keep = short.startswith(_BY_STORAGE) or short.endswith("_copy")
        self.operand_strides = operand_strides if keep else None
        self.results = []  # (index in the operator's result or None, dtype or None for values of the host, shape)

    def __call__(self, operands, sizes, strides):
        counters.count_fallback(self.name)
        if self.operand_strides:
            operands = [_stored(t, s) for t, s in zip(operands, self.operand_strides, strict=True)]
        out = self.target(
            *[_fill(x, operands, sizes) for x in self.args],
            **{k: _fill(x, operands, sizes) for k, x in self.kwargs.items()},
        )
        shared = {_storage(t) for t in operands}
        shared.discard(None)
        results = []
        for (path, dtype, shape), wanted in zip(self.results, strides):
            value = out
            for index in path:
                value = value[index]
            results.append(_conform(value, dtype, shape, wanted, shared, self.name))
        return results


def _storage(tensor):
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (NotImplementedError, RuntimeError):
        return None


def _stored(tensor, strides):
    if strides is None or list(tensor.stride()) == strides:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


def _conform(tensor, dtype, shape, strides, shared, name):
    """The result as it was promised: dtype, strides, memory of its own."""
    if dtype is None:
        return tensor.clone() if _storage(tensor) in shared else tensor
    if tensor.dtype != dtype:
        tensor = tensor.to(dtype)
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if shape is not None and tensor.shape != shape:
        raise RuntimeError(f"hologram: {name} gave {tuple(tensor.shape)} where tracing promised {tuple(shape)}")
    if strides is not None:
        same = all(a == b or n <= 1 for a, b, n in zip(tensor.stride(), strides, tensor.shape))
        if same and _storage(tensor) not in shared:
            return tensor
        return torch.empty_strided(tensor.shape, strides, dtype=dtype).copy_(tensor)
    return tensor.clone() if _storage(tensor) in shared else tensor


class HostTable:
    """The host calls of one graph, by number; the native side calls it."""

    def __init__(self):
        self.calls = []

    def add(self, call: HostCall) -> int:
        self.calls.append(call)
        return len(self.calls) - 1

    def __call__(self, callee, operands, sizes, strides):
        return self.calls[callee](operands, sizes, strides)
