# bench/conformance/opinfo_direct.py: a backend called without Dynamo
import functools

import torch
from torch._dynamo import lookup_backend
from torch._dynamo.source import LocalSource
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP, DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree


class Graph:
    """`function` for arguments of the types of `inputs`, a tree of arguments and keywords, as a graph of make_fx that
    the backend compiled. Tensors are its inputs; numbers stay as they are in `inputs`."""

    def __init__(self, function, inputs, backend, training):
        self.function = function
        self.leaves, self.spec = pytree.tree_flatten(inputs)
        self.where = [i for i, leaf in enumerate(self.leaves) if self.is_input(leaf)]
        with torch.set_grad_enabled(training):
            backend = lookup_backend(backend) if isinstance(backend, str) else backend
            self.compiled = self.compile(backend, [self.leaves[i] for i in self.where])

    def is_input(self, leaf) -> bool:
        return isinstance(leaf, torch.Tensor)

    def compile(self, backend, examples):
        graph = make_fx(self.flat, pre_dispatch=True)(*examples)
        with tracing(TracingContext(FakeTensorMode())):  # which tells backends what a forward graph leaves for its backward graph
            return backend(graph, examples)

    def flat(self, *values):
        full = list(self.leaves)
        for i, value in zip(self.where, values, strict=True):
            full[i] = value
        args, kwargs = pytree.tree_unflatten(full, self.spec)
        out, self.result = pytree.tree_flatten(self.function(*args, **kwargs))
        variable = (torch.Tensor, torch.SymInt)
        self.fixed = {i: v for i, v in enumerate(out) if not isinstance(v, variable)}
        return tuple(v for v in out if isinstance(v, variable))

    def arguments(self, values) -> list:
        """What the compiled graph takes for the values of its inputs."""
        return values

    def __call__(self, *args, **kwargs):
        given = pytree.tree_leaves((args, kwargs))
        values = iter(self.compiled(*self.arguments([given[i] for i in self.where])))
        out = [self.fixed[i] if i in self.fixed else next(values) for i in range(self.result.num_leaves)]
        return pytree.tree_unflatten(out, self.result)


class SymbolicGraph(Graph):
    """The same for arguments of other sizes too: sizes are symbols as with dynamic=True, and so are numbers that equal one,
    or all where there are no tensors. `alone`: of the first tensor only, as where the others are a model's parameters."""

    def __init__(self, function, inputs, backend, training, alone=False):
        self.alone = alone
        super().__init__(function, inputs, backend, training)

    def is_input(self, leaf) -> bool:
        return isinstance(leaf, torch.Tensor) or _is_number(leaf) and (not self.sizes or leaf in self.sizes)

    @functools.cached_property
    def sizes(self) -> set:
        tensors = [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]
        return {n for t in tensors for n in (*t.shape, t.numel())}

    def compile(self, backend, examples):
        self.environment = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
        mode = FakeTensorMode(shape_env=self.environment, allow_non_fake_inputs=True)
        self.fakes = [self.fake(mode, f"t{i}", leaf) for i, leaf in enumerate(examples)]
        self.readers, symbols = self.symbols()
        known = len(symbols)
        tensors = [i for i, leaf in enumerate(self.fakes) if isinstance(leaf, torch.Tensor)]
        self.tensors = tensors

        def lifted(*arguments):
            values = list(self.fakes)
            for i, value in zip(tensors, arguments[known:], strict=True):
                values[i] = value
            for (kind, i, _), value in zip(self.readers, arguments, strict=False):
                if kind == "number":
                    values[i] = value
            return self.flat(*values)

        inputs = [*symbols, *(self.fakes[i] for i in tensors)]
        with mode:
            graph = make_fx(lifted, pre_dispatch=True)(*inputs)
        with tracing(TracingContext(mode)):
            compiled = backend(graph, inputs)
        names = [f"t{i}" for i in range(len(self.fakes))]
        self.guards = [
            compile(guard, "guard", "eval")
            for guard in self.environment.produce_guards(self.fakes, [LocalSource(n) for n in names], ignore_static=False)
        ]
        return compiled

    def fake(self, mode, name, leaf):
        source = LocalSource(name)
        if isinstance(leaf, torch.Tensor):
            first = next(t for t in self.leaves if isinstance(t, torch.Tensor))
            kind = DimDynamic.STATIC if self.alone and leaf is not first else DimDynamic.DUCK
            context = StatelessSymbolicContext(dynamic_sizes=[kind] * leaf.dim())
            return mode.from_tensor(leaf, source=source, symbolic_context=context if leaf.layout == torch.strided else None)
        return self.environment.create_unspecified_symint_and_symbol(leaf, source, DimDynamic.DYNAMIC)

    def symbols(self):
        """→ ([how to read each symbol from the inputs: (kind, input, axis)], the symbols)"""
        found = {}
        for i, leaf in enumerate(self.fakes):
            if not isinstance(leaf, torch.Tensor):
                found.setdefault(leaf.node.expr, (("number", i, 0), leaf))
            elif leaf.layout == torch.strided:
                for kind, parts in (("size", leaf.shape), ("stride", leaf.stride()), ("offset", (leaf.storage_offset(),))):
                    for axis, part in enumerate(parts):
                        if isinstance(part, torch.SymInt) and part.node.expr.is_Symbol:
                            found.setdefault(part.node.expr, ((kind, i, axis), part))
        return [how for how, _ in found.values()], [symbol for _, symbol in found.values()]

    def arguments(self, values) -> list:
        return [*(_READ[kind](values[i], axis) for kind, i, axis in self.readers), *(values[i] for i in self.tensors)]

    def alike(self, i, leaf) -> bool:
        """Whether leaf i may differ from the graph's as these do."""
        mine = self.leaves[i]
        if isinstance(mine, torch.Tensor):
            return isinstance(leaf, torch.Tensor) and _kind(leaf) == _kind(mine)
        return _is_number(leaf) if i in self.where else type(leaf) is type(mine) and repr(leaf) == repr(mine)

    def holds(self, inputs) -> bool:
        """Whether the graph is one for these inputs too."""
        leaves, spec = pytree.tree_flatten(inputs)
        if spec != self.spec or not all(map(self.alike, range(len(leaves)), leaves)):
            return False
        given = {"L": {f"t{n}": leaves[i] for n, i in enumerate(self.where)}}
        return all(eval(guard, SYMPY_INTERP, given) for guard in self.guards)


def _is_number(leaf) -> bool:
    return type(leaf) is int and leaf >= 2


def _kind(t):
    """What tensors have in common that share a graph, beside what its guards say of sizes."""
    return t.dtype, t.dim(), t.layout, t.requires_grad, t.is_conj(), t.is_neg()


_READ = {
    "size": lambda t, axis: t.shape[axis],
    "stride": lambda t, axis: t.stride(axis),
    "offset": lambda t, axis: t.storage_offset(),
    "number": lambda n, axis: n,
}
