# hologram_torch/pieces.py: calls of a graph that is cut: its parts one after the other, and PyTorch between them
import operator

import torch
from torch.utils import _pytree as pytree

from . import counters, lines
from .graph.symbols import Call
from .translate import cut
from .translate.calls import called, value_of
from .translate.host import Traced, as_traced, counts, runs_bodies


class Variants:
    """A graph that is compiled at its first call, for the sizes that it comes with, and again where what was assumed of these
    does not hold. make(Call) → a callable over one list, which it clears; sizes: {symbol: position of its argument}."""

    def __init__(self, make, sizes):
        self._boxed_call = True  # an instance's: functools.wraps copies it
        self._make, self._sizes = make, sizes
        self._made = []

    def __call__(self, arguments):
        for call, conditions in self._made:
            if all(bool(formula(arguments)) == held for formula, held in conditions):
                return call(arguments)
        given = Call({symbol: int(arguments[at]) for symbol, at in self._sizes.items()})
        call = self._make(given)
        self._made.append((call, given.conditions))
        return call(arguments)


class CutGraph:
    """`at`: nodes of the module that no part may hold; compile(inputs of the module, part) → a callable over one list;
    body(module) → what operators get for a graph that they run."""

    def __init__(self, module, at, compile, body):
        self._boxed_call = True
        graph = module.graph
        self._inputs = list(graph.find_nodes(op="placeholder"))
        (output,) = graph.find_nodes(op="output")
        self._results = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
        self._constants = {n: operator.attrgetter(n.target)(module) for n in graph.find_nodes(op="get_attr")}
        self._steps = [
            _PartStep(piece, compile(self._inputs, piece)) if isinstance(piece, cut.Part) else _Operator(piece, piece in at)
            for piece in cut.cut(module, at)
        ]
        for node, value in self._constants.items():
            if isinstance(value, torch.fx.GraphModule) and any(runs_bodies(user.target) for user in node.users if user in at):
                self._constants[node] = body(value)
        last = {}  # node → the step that reads it last
        for number, step in enumerate(self._steps):
            last.update(dict.fromkeys(step.reads, number))
        kept = {n for n in self._results if isinstance(n, torch.fx.Node)} | set(self._constants)
        self._dead = [[] for _ in self._steps]
        for node, number in last.items():
            if node not in kept:
                self._dead[number].append(node)

    def __call__(self, arguments):
        values = dict(zip(self._inputs, arguments, strict=True))
        arguments.clear()
        values |= self._constants
        for step, dead in zip(self._steps, self._dead):
            step(values)
            for node in dead:
                del values[node]
        return [values[r] if isinstance(r, torch.fx.Node) else r for r in self._results]


class _PartStep:
    def __init__(self, part, call):
        self.reads = {*part.reads, *(node for node, _ in part.sizes)}
        self._arguments, self._sizes, self._gives, self._call = part.reads, part.sizes, part.gives, call
        self._same = part.same_sizes()

    def __call__(self, values):
        arguments = [values[node] for node in self._arguments]
        arguments += [values[node].shape[axis] for node, axis in self._sizes]
        for at, axis, number in self._same:  # kernels read as many elements as tracing promised
            if arguments[at].shape[axis] != arguments[number]:
                raise RuntimeError(f"hologram: {self._arguments[at]} has {arguments[at].shape[axis]} elements along axis {axis}"
                                   f" where tracing promised {arguments[number]}")  # fmt: skip
        values.update(zip(self._gives, self._call(arguments), strict=True))


class _Operator:
    def __init__(self, node, counted):
        self.reads = set(node.all_input_nodes)
        counted = counted and counts(node.target, called(node))
        self._node, self._name = node, called(node) if counted else None
        writes = isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable  # and gives what it wrote, as it is
        self._kinds = None if writes else pytree.tree_map(Traced.of, value_of(node))
        if counted:
            counters.name_fallback(self._name, "a graph cannot hold it", lines.of(node))

    def __call__(self, values):
        if self._name:
            counters.count_fallback(self._name)
        node = self._node
        arguments = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
        values[node] = as_traced(self._kinds, node.target(*arguments[0], **arguments[1]), called(node))
