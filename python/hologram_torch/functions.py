# hologram_torch/functions.py: functions of tensors as graphs of ours alone, for tensors such as those of a call
import collections
import contextlib
import logging

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import LocalSource
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP, DimDynamic, ShapeEnv, StatelessSymbolicContext

from . import counters
from .capture import decomp
from .compiler import compile_native
from .options import Options


def attempt(work, name):
    """(work(), None), or (None, the error) where that raises, as compiling does where an operator of PyTorch's would run."""
    try:
        with torch.no_grad(), _quiet():
            return work(), None
    except Exception as error:
        counters.log.debug("%s is left to PyTorch: %s: %s", name, type(error).__name__, error)
        return None, error


@contextlib.contextmanager
def _quiet():
    """Inside, tracing does not log what it raises: such a function is PyTorch's."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


class Fixed:
    """`function` of tensors, which returns several, compiled for tensors of the sizes and strides of `examples`; a call takes a list,
    which it clears, and returns one. Unsupported where an operator of PyTorch's would run."""

    def __init__(self, function, examples, name):
        self.name = name
        self.call = self.compile(torch.func.functionalize(function, remove="mutations"), examples)

    def compile(self, function, examples):
        trace = make_fx(function, tracing_mode="fake", decomposition_table=decomp.table(), _allow_non_fake_inputs=True)
        return self.compiled(trace(*examples))

    def compiled(self, module):
        module.graph.eliminate_dead_code()
        module.recompile()
        return compile_native(module, Options.make(None, None), self.name)

    def __call__(self, values):
        return self.call(values)

    def holds(self, values) -> bool:
        """Whether it serves tensors of other sizes, of the dtypes and ranks of `examples`."""
        return False


class Open(Fixed):
    """The same for other sizes too, which its guards admit."""

    def compile(self, function, examples):
        self.environment = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
        mode = FakeTensorMode(shape_env=self.environment, allow_non_fake_inputs=True)
        context = lambda t: StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DUCK] * t.dim())
        names = [f"t{i}" for i in range(len(examples))]
        fakes = [mode.from_tensor(t, source=LocalSource(n), symbolic_context=context(t)) for n, t in zip(names, examples)]
        self.readers, symbols = _symbols(fakes)
        count = len(symbols)
        with mode, enable_python_dispatcher():
            module = make_fx(lambda *a: function(*a[count:]), decomposition_table=decomp.table())(*symbols, *fakes)
        call = self.compiled(module)
        guards = self.environment.produce_guards(fakes, [LocalSource(n) for n in names], ignore_static=False)
        self.guards = [compile(guard, "guard", "eval") for guard in guards]
        return call

    def __call__(self, values):
        return self.call([*(_READ[kind](values[i], axis) for kind, i, axis in self.readers), *values])

    def holds(self, values) -> bool:
        given = {"L": {f"t{i}": t for i, t in enumerate(values)}}
        return all(eval(guard, SYMPY_INTERP, given) for guard in self.guards)


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


_KEPT = 4096  # keys of a function


class Compiled:
    """`function` of tensors → tuple of tensors, by our kernels: one graph for the first sizes, one of open sizes for those that
    follow. What is not wholly ours PyTorch runs, counted as a fallback by `name`."""

    def __init__(self, function, name):
        self.function, self.name = function, name
        self._made = {}  # dtypes, sizes and strides -> graph, or None
        self._graphs = collections.defaultdict(list)  # dtypes and ranks -> graphs

    def __call__(self, *tensors):
        key = tuple((t.dtype, t.shape, t.stride(), t.device) for t in tensors)
        if key not in self._made:
            if len(self._made) >= _KEPT:
                self._made.clear()
            self._made[key] = self._find(tensors)  # under no lock: gradients of a device are traced in its thread
        graph = self._made[key]
        if graph is None:
            counters.count_fallback(self.name)
            with temporarily_clear_interpreter_stack():
                return self.function(*tensors)
        return tuple(graph([t.detach() for t in tensors]))

    def _find(self, tensors):
        graphs = self._graphs[tuple((t.dtype, t.dim(), t.device, t.numel() == 0) for t in tensors)]
        for graph in graphs:
            if graph is None or graph.holds(tensors):
                return graph
        kind = Open if graphs else Fixed
        examples = [t.detach() for t in tensors]
        with temporarily_clear_interpreter_stack():  # of torch.func, in whose transforms this may be
            graph, error = attempt(lambda: kind(self._results, examples, self.name), self.name)
        if error is not None:
            counters.name_fallback(self.name, f"{type(error).__name__}: {error}", "")
        graphs.append(graph)
        return graph

    def _results(self, *tensors):
        """Of memory of their own."""
        return tuple(r.clone() for r in self.function(*tensors))
