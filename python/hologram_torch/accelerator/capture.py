# hologram_torch/accelerator/capture.py: one operator as a graph, compiled
import contextlib
import logging
import threading

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import LocalSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP, DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree

from .. import counters, runtimes
from ..capture import decomp
from ..compiler import compile_native
from ..options import Options
from . import numbers, tensors


def make(op, args, kwargs, symbolic, numeric):
    """A callable over the flat arguments, or None where an operator of PyTorch's would run in it. symbolic: for other sizes too;
    numeric: positions of numbers, for others of which it is too."""
    made = []

    def work():  # in a thread of its own: the state of this one says below which of PyTorch's layers the operator was called
        try:
            with torch.no_grad(), _quiet(), runtimes.giving("hologram:0"):
                made.append((Symbolic if symbolic else Graph)(op, args, kwargs, numeric))
        except Exception as error:
            counters.log.debug("device hologram: %s is left to PyTorch: %s: %s", op, type(error).__name__, error)

    thread = threading.Thread(target=work, name="hologram-device")
    thread.start()
    thread.join()
    return made[0] if made else None


@contextlib.contextmanager
def _quiet():
    """Inside, tracing does not log what it raises: such an operator is PyTorch's."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


class Graph:
    """A call of `op` with arguments such as these, as a graph whose inputs are the tensors, and the numbers at `numeric`."""

    def __init__(self, op, args, kwargs, numeric=()):
        self.name = f"operator_{op.name().partition('::')[2]}"
        self.op = numbers.formula(op) if numeric else op
        self.in_place = op._schema.name.endswith("_")  # the first argument is written and returned
        self.numeric = numeric
        leaves, self.spec = pytree.tree_flatten((args, dict(kwargs)))
        self.nested = any(isinstance(x, (list, tuple)) for x in (*args, *kwargs.values()))
        self.where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) or i in numeric]
        self.leaves = [torch.device("cpu") if isinstance(leaf, torch.device) else leaf for leaf in leaves]
        self.call = self.compile([_example(leaves[i]) for i in self.where])
        self.leaves = [None if i in self.where else leaf for i, leaf in enumerate(self.leaves)]

    def compile(self, examples):
        module = make_fx(self.functional(), tracing_mode="fake", decomposition_table=decomp.table(), _allow_non_fake_inputs=True)(*examples)
        return self.compiled(module)

    def functional(self):
        return torch.func.functionalize(self.flat, remove="mutations")

    def compiled(self, module):
        module.graph.eliminate_dead_code()
        module.recompile()
        return compile_native(module, Options.make(None, None), self.name)

    def flat(self, *values):
        full = list(self.leaves)
        for i, value in zip(self.where, values, strict=True):
            full[i] = value
        args, kwargs = pytree.tree_unflatten(full, self.spec)
        out = self.op(*args, **kwargs)
        if self.in_place:
            self.result = []
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

    def arguments(self, values) -> list:
        return values

    def __call__(self, flat):
        results = self.call(self.arguments(self.values(flat)))
        if self.in_place:
            return flat[0]
        if self.result.type is None:
            return results[0]
        return tuple(results) if self.result.type is tuple else results

    def holds(self, flat) -> bool:
        return False


class Symbolic(Graph):
    """The same for other sizes too, which its guards admit."""

    def compile(self, examples):
        self.environment = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
        mode = FakeTensorMode(shape_env=self.environment, allow_non_fake_inputs=True)
        context = lambda t: StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DUCK] * t.dim())
        names = [f"t{i}" for i in range(len(examples))]
        fakes = [mode.from_tensor(t, source=LocalSource(n), symbolic_context=context(t)) for n, t in zip(names, examples)]
        self.readers, symbols = _symbols(fakes)
        count = len(symbols)
        function = self.functional()
        with mode, enable_python_dispatcher():
            module = make_fx(lambda *a: function(*a[count:]), decomposition_table=decomp.table())(*symbols, *fakes)
        call = self.compiled(module)
        guards = self.environment.produce_guards(fakes, [LocalSource(n) for n in names], ignore_static=False)
        self.guards = [compile(guard, "guard", "eval") for guard in guards]
        return call

    def arguments(self, values) -> list:
        return [*(_READ[kind](values[i], axis) for kind, i, axis in self.readers), *values]

    def holds(self, flat) -> bool:
        given = {"L": {f"t{i}": t for i, t in enumerate(self.values(flat))}}
        return all(eval(guard, SYMPY_INTERP, given) for guard in self.guards)


def _number(x):
    return torch.scalar_tensor(x, dtype=torch.float64)


def _example(tensor):
    if not isinstance(tensor, torch.Tensor):
        return _number(tensor)
    return tensors.on_host(tensor) if tensors.is_ours(tensor) else tensor.detach()


def _symbols(fakes):
    """→ ([how to read each symbol from the tensors: (kind, tensor, axis)], the symbols)"""
    found = {}
    for i, fake in enumerate(fakes):
        for kind, parts in (("size", fake.shape), ("stride", fake.stride()), ("offset", (fake.storage_offset(),))):
            for axis, part in enumerate(parts):
                if isinstance(part, torch.SymInt) and part.node.expr.is_Symbol:
                    found.setdefault(part.node.expr, ((kind, i, axis), part))
    return [how for how, _ in found.values()], [symbol for _, symbol in found.values()]


_READ = {
    "size": lambda t, axis: t.shape[axis],
    "stride": lambda t, axis: t.stride(axis),
    "offset": lambda t, axis: t.storage_offset(),
}
