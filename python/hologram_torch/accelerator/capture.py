# hologram_torch/accelerator/capture.py: one operator as a graph, compiled
import threading

import torch
from torch.utils import _pytree as pytree

from .. import functions, runtimes
from ..graph.symbols import Unsupported
from . import numbers, tensors


def make(op, args, kwargs, symbolic, numeric, outs=()):
    """A callable over the flat arguments, or None where an operator of PyTorch's would run in it. symbolic: for other sizes too;
    numeric: positions of numbers, for others of which it is too; outs: names of the last keywords, tensors for the results."""

    def work():
        with runtimes.giving("hologram:0"):
            return Graph(op, args, kwargs, functions.Open if symbolic else functions.Fixed, numeric, outs)

    made = []  # by a thread of its own: the state of this one says below which of PyTorch's layers the operator was called
    thread = threading.Thread(target=lambda: made.append(functions.attempt(work, f"device hologram: {op}")[0]), name="hologram-device")
    thread.start()
    thread.join()
    return made[0]


class Graph:
    """A call of `op` with arguments such as these, as a graph whose inputs are the tensors, and the numbers at `numeric`. kind: what
    compiles functions of tensors."""

    def __init__(self, op, args, kwargs, kind, numeric=(), outs=()):
        self.op = numbers.formula(op) if numeric else op
        self.in_place = op._schema.name.endswith("_")  # the first argument is written and returned
        self.outs = outs
        self.numeric = numeric
        leaves, self.spec = pytree.tree_flatten((args, dict(kwargs)))
        self.nested = any(isinstance(x, (list, tuple)) for x in (*args, *kwargs.values()))
        self.where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) or i in numeric]
        self.leaves = [torch.device("cpu") if isinstance(leaf, torch.device) else leaf for leaf in leaves]
        self.call = kind(self.flat, [_example(leaves[i]) for i in self.where], f"operator_{op.name().partition('::')[2]}")
        self.direct = self.call.call if type(self.call) is functions.Fixed and not numeric and not outs else None  # of the tensors
        self.leaves = [None if i in self.where else leaf for i, leaf in enumerate(self.leaves)]

    @property
    def gives(self) -> int:
        """As _core.DeviceOperator.put() takes it."""
        return 0 if self.in_place else 1 if self.result.type is None else 2 if self.result.type is tuple else 3

    def flat(self, *values):
        full = list(self.leaves)
        for i, value in zip(self.where, values, strict=True):
            full[i] = value
        args, kwargs = pytree.tree_unflatten(full, self.spec)
        targets = [kwargs.pop(name) for name in self.outs]
        out = self.op(*args, **kwargs)
        if targets:
            for target, value in zip(targets, out if isinstance(out, tuple) else (out,), strict=True):
                _write(target, value)
        if self.in_place or targets:
            return ()
        out, self.result = pytree.tree_flatten(out)
        return tuple(out)

    def values(self, flat) -> list:
        """The tensors among flat arguments."""
        if self.nested:
            flat = pytree.tree_leaves(flat)
        if self.numeric:
            return [flat[i] if isinstance(flat[i], torch.Tensor) else _number(flat[i]) for i in self.where]
        return [flat[i] for i in self.where]

    def __call__(self, flat):
        results = self.call(self.values(flat))
        if self.in_place:
            return flat[0]
        if self.outs:
            return flat[-1] if len(self.outs) == 1 else flat[-len(self.outs) :]
        if self.result.type is None:
            return results[0]
        return tuple(results) if self.result.type is tuple else results

    def holds(self, flat) -> bool:
        """Whether it serves these arguments, whose sizes are others."""
        return self.call.holds(self.values(flat))


def _write(target, value):
    if target.dtype != value.dtype or target.shape != value.shape:  # which eager converts, resizes or refuses
        raise Unsupported("a tensor for the result of another dtype or size")
    target.copy_(value)


def _number(x):
    return torch.scalar_tensor(x, dtype=torch.float64)


def _example(tensor):
    if not isinstance(tensor, torch.Tensor):
        return _number(tensor)
    return tensors.on_host(tensor) if tensors.is_ours(tensor) else tensor.detach()
