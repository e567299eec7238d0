# hologram_torch/translate/left.py: operators that an archive leaves to PyTorch, as plain data and as calls again
import functools
import operator

import torch

from ..graph import dtypes
from ..graph.symbols import Unsupported
from . import host

_NAMED = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}


class _Made:
    """Stands for a result of the operator that was called."""

    def __init__(self, path):
        self.path = path


class Named:
    """Stands for a value of steps (steps.py)."""

    def __init__(self, name):
        self.name = name


class Body:
    """Steps that an operator runs."""

    def __init__(self, plain):
        self.plain = plain


def check(node, producer):
    """An operator that only checks results of another one: `producer(node)` is that one's node and the result's place."""
    args, kwargs = torch.fx.map_arg((list(node.args), dict(node.kwargs)), lambda n: _Made(producer(n)[1]))
    return {"operator": name_of(node.target), "args": as_plain(args), "kwargs": as_plain(kwargs)}


def name_of(target):
    return [*target._schema.name.split("::"), target._overloadname]


def written(call, checks) -> dict:
    """A host call as JSON, with what follows it. Raises Unsupported for what is no operator on tensors and plain values."""
    if type(call) is not host.HostCall or not isinstance(call.target, torch._ops.OpOverload):
        raise Unsupported(f"{call.name}, which no file names")
    if any(dtype is None for _, dtype, _ in call.results):
        raise Unsupported(f"{call.name}, whose results only PyTorch holds")
    return {
        "operator": name_of(call.target), "checks": list(checks),
        "args": as_plain(list(call.args)), "kwargs": as_plain(dict(call.kwargs)),
        "stored": [{"strides": as_plain(s.strides), "axes": as_plain(s.axes)} for s in call.stored],
        "results": [[list(path), dtypes.NAME[dtype], shape if shape is None else list(shape)] for path, dtype, shape in call.results],
    }  # fmt: skip


def as_plain(value):
    kind = type(value)
    if kind in (host._Operand, host._Size):
        return {"operand" if kind is host._Operand else "size": value.index}
    if kind is _Made:
        return {"made": value.path}
    if kind is Named:
        return {"named": value.name}
    if kind is Body:
        return {"body": value.plain}
    if isinstance(value, (list, tuple)):  # FX's own kinds of them too
        return {"tuple" if isinstance(value, tuple) else "list": [as_plain(x) for x in value]}
    if isinstance(value, dict):
        return {"dict": {k: as_plain(x) for k, x in value.items()}}
    if kind in _NAMED:
        return {_NAMED[kind]: str(value).removeprefix("torch.")}
    if kind is torch.device:
        return {"device": str(value)}
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    raise Unsupported(f"an argument of type {kind.__name__}")


def read(value):
    if not isinstance(value, dict):
        return value
    ((kind, x),) = value.items()
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](read(y) for y in x)
    if kind == "dict":
        return {k: read(y) for k, y in x.items()}
    if kind in _NAMED.values():
        return getattr(torch, x)
    return {"operand": host._Operand, "size": host._Size, "device": torch.device, "made": _Made, "named": Named, "body": Body}[kind](x)


def filled(value, values):
    """What was read, with values in the places of their names."""
    kind = type(value)
    if kind is Named:
        return values[value.name]
    if kind in (list, tuple):
        return kind(filled(x, values) for x in value)
    return {k: filled(x, values) for k, x in value.items()} if kind is dict else value


def names_in(value):
    if type(value) is Named:
        yield value.name
    elif isinstance(value, (list, tuple, dict)):
        for x in value.values() if isinstance(value, dict) else value:
            yield from names_in(x)


def tensor_of(memory, dtype, shape, strides):
    """An operand as an ArchiveFunction gives it."""
    return torch.from_numpy(memory).view(dtypes.TORCH[dtype]).as_strided(shape, strides)


def operator_of(path):
    space, name, overload = path
    try:
        return getattr(getattr(getattr(torch.ops, space), name), overload)
    except AttributeError:
        raise NotImplementedError(f"this PyTorch has no operator {space}::{name}.{overload}; import what registers it") from None


def _checked(target, checks):
    """The operator, and then the checks of its results."""

    def filled(value, out):
        if type(value) is _Made:
            return functools.reduce(operator.getitem, value.path, out)
        return type(value)(filled(x, out) for x in value) if type(value) in (list, tuple) else value

    checks = [(operator_of(c["operator"]), read(c["args"]), read(c["kwargs"])) for c in checks]

    def run(*args, **kwargs):
        out = target(*args, **kwargs)
        for check, positional, named in checks:
            check(*filled(positional, out), **{k: filled(v, out) for k, v in named.items()})
        return out

    return run if checks else target


def _call(plain):
    target = operator_of(plain["operator"])
    stored = [host.Stored(read(s["strides"]), read(s["axes"])) for s in plain["stored"]]
    call = host.HostCall(_checked(target, plain["checks"]), str(target), read(plain["args"]), read(plain["kwargs"]), stored)
    for path, dtype, shape in plain["results"]:
        call.results.append((tuple(path), dtypes.TORCH[dtype], shape if shape is None else torch.Size(shape)))
    return call


class Calls:
    """Those of one method, by number, for ArchiveFunction: operands are views of the call's memory. None: a loop, which the
    archive runs itself."""

    def __init__(self, plain):
        self.calls = [p and _call(p) for p in plain]

    @torch.no_grad()
    def __call__(self, callee, operands, sizes, strides):
        results = self.calls[callee]([tensor_of(*operand) for operand in operands], sizes, strides)
        return [(result.data_ptr(), result) for result in results]
