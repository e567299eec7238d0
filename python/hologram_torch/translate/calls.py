# hologram_torch/translate/calls.py: steps of a graph that PyTorch runs, and the values that only it holds
import operator

import torch
from torch.fx import Node
from torch.fx.immutable_collections import immutable_dict, immutable_list

from .. import lines
from ..graph import dtypes
from ..graph.builder import Builder, Value, contiguous_strides
from ..graph.symbols import Unsupported
from . import collectives, loose, sharing
from .host import HostTable, Stored, _Number, _Operand, _Size, counts, runs_bodies

SEQUENCES = (list, tuple, immutable_list)


class Calls(Builder):
    """The part of a Translator that makes calls of the host."""

    def __init__(self, module, call=None, body=None):
        super().__init__(call)
        self.module = module
        self._body = body
        self._loose = loose.find(module.graph)
        self._unsized = loose.unsized(module.graph)
        self.env = {}
        self.host = HostTable()
        self.host_nodes = set()  # FX nodes whose values only the host holds
        self.real_nodes = set()  # FX nodes that are floats made of sizes
        self.args = []
        self.parameter_of = {}  # placeholder -> parameter number
        self.last_random = None
        self.pending = collectives.Pending()
        self.outputs = 0
        self._awaited = {}  # id of a value that a collective has completed → output of the graph
        self._viewing = {}  # id of a value that lies in memory of another one of PyTorch's → its node
        self.fallbacks = []

    def _held(self, node):
        """The value of a node; what the graph cannot hold becomes a value of the host's."""
        value = self.env[node]
        if type(value) is not Opaque:
            return value
        if value.position is None:
            self._call_host(node, node.target, value_of(node), counted=False)
        else:
            number, self.env[node] = self._object_parameter()
            self.args[value.position] = ("object", number)
            self.parameter_of[node] = number
        self.host_nodes.add(node)
        return self.env[node]

    def _call_host(self, node, target, val, reason="", counted=True, hidden=False):
        """`hidden`: its results are PyTorch's alone."""
        if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
            raise Unsupported(f"operator {target}, which writes into its operand,")
        name = called(node)
        operands, stored, sizes = [], [], []

        def template(a):
            kind = type(a)
            if kind is Node:
                value = self._held(a)
                if self._body and isinstance(value, torch.fx.GraphModule) and runs_bodies(target):
                    return self._body(value)
                if a in self.real_nodes:
                    operands.append(value)
                    stored.append(Stored())
                    return _Number(len(operands) - 1)
                fake = a.meta.get("val")
                if type(value) in (list, tuple):
                    return type(value)(wrap(v, f) for v, f in zip(value, fake, strict=True))
                return wrap(value, fake)
            if kind in SEQUENCES:
                return [template(x) for x in a]
            if kind in (dict, immutable_dict):
                return {k: template(x) for k, x in a.items()}
            return a

        def wrap(value, fake):
            if type(value) is Value:
                operand, how = self._as_stored(value, fake, sizes)
                operands.append(operand)
                stored.append(how)
                return _Operand(len(operands) - 1)
            if isinstance(value, self._expr_type):
                sizes.append(value)
                return _Size(len(sizes) - 1)
            return value

        make, timing = collectives.kind_of(target)
        args = [template(a) for a in node.args]
        kwargs = {k: template(a) for k, a in node.kwargs.items()}
        call = make(target, name, args, kwargs, stored)
        call.counted = call.counted and counted and counts(target, name)
        if sharing.is_view(target):
            call.viewed = [index for index, v in enumerate(operands) if v.dtype == dtypes.HOST]
        random = random_kind(target)
        if random and self.last_random is not None:
            operands.append(self.last_random)  # keeps the order in which the generator is used
        if call.counted:
            self.fallbacks.append((name, reason, lines.of(node)))
        if make is collectives.Wait:
            operands += self.pending.wait(call, list(operands))
        unstated = [(user.args[1],) for user in node.users if user in self._loose]
        unstated += [path[:1] for path in _paths(val)] if hidden or node in self._unsized else []
        value = self._host_values(call, operands, sizes, val, timing=timing, hidden=unstated)
        if timing != collectives.ANY:
            self._goes_on(node, call, operands, value)
        if random:
            first = next(_values(value), None)
            self.last_random = first if first is not None else self.last_random
        self.env[node] = value
        if type(value) is Value:
            if call.viewed:
                self._viewing[value.id] = node
            if value.dtype == dtypes.HOST:
                self.host_nodes.add(node)

    def _goes_on(self, node, call, operands, value):
        """Notes a collective that has begun, or ended: then what it wrote is read through the call that waited."""
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(call, collectives.Collective):
            self.pending.begin(call, operands, values)
        else:
            complete = dict(zip((v.id for v in operands), values))
            for earlier, known in self.env.items():
                if type(known) is Value and known.id in complete:
                    self.env[earlier] = complete[known.id]
        if isinstance(call, collectives.Wait) or not node.users:  # as it does on the other side
            self._run_anyway(value)

    def _run_anyway(self, value):
        """The host's call that gave a value runs whatever reads that."""
        for v in value if isinstance(value, tuple) else (value,):
            if type(v) is not Value:
                continue
            self._awaited[v.id] = self.outputs
            self.graph.output(v, [] if v.dtype == dtypes.HOST else contiguous_strides(v.shape))
            self.outputs += 1

    def _as_stored(self, value, fake, sizes):
        """An operand of a host call, and how the operator gets it; `sizes` takes the symbolic strides."""
        if value.dtype == dtypes.HOST or not (isinstance(fake, torch.Tensor) and dtypes.is_native(fake)):
            return value, Stored()
        strides = []
        for n in self.symbols.sizes(fake.stride()):
            if type(n) is not int:
                sizes.append(n)
                n = _Size(len(sizes) - 1)
            strides.append(n)
        order = None if value.op in ("parameter", "host_result") else _memory_order(fake)
        if order is None:
            return value, Stored(strides)
        return self.permute(value, order), Stored(strides, [order.index(axis) for axis in range(len(order))])

    _expr_type = __import__("hologram._core", fromlist=["Expr"]).Expr

    def _host_values(self, call, operands, sizes, val, native=False, timing=collectives.ANY, hidden=()):
        """`hidden`: positions of results that only the host reads."""
        token = self.make("host_call", operands, ints=[self.host.add(call), timing], exprs=sizes, text=call.name)

        def result(fake, path):
            if isinstance(fake, (list, tuple)):
                return tuple(result(f, (*path, i)) for i, f in enumerate(fake))
            if fake is None:
                return None
            if not isinstance(fake, torch.Tensor):
                if isinstance(fake, (bool, int, float)):
                    return fake
            index = len(call.results)
            stated = None
            if isinstance(fake, torch.Tensor) and path[:1] not in hidden and (native or dtypes.is_native(fake)):
                stated = self._stated(fake)
            if stated is None:
                call.results.append((path, None, None))
                return self.make("host_result", [token], ints=[index], exprs=[], dtype=dtypes.HOST, shape=[])
            shape, strides = stated
            static = torch.Size(shape) if all(type(n) is int for n in shape) else None
            call.results.append((path, fake.dtype, static))
            return self.make(
                "host_result", [token], ints=[index], exprs=strides, dtype=dtypes.NAME[fake.dtype], shape=shape
            )  # fmt: skip

        return result(val, ())

    def _stated(self, fake):
        """Sizes and strides of a tensor, or None where only run time tells them."""
        try:
            return self.symbols.sizes(fake.shape), self.symbols.sizes(fake.stride())
        except Unsupported:
            return None


def called(node) -> str:
    """The name of the operator that a node calls; of one that another operator calls for it, that one's."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return str(next((a for a in node.args[:2] if isinstance(a, torch._ops.OpOverload)), node.target))
    return str(node.target)


class Opaque:
    """A value that the graph cannot hold: a number of the host's, which it makes where something asks for it. position: of the
    argument that it is, or None."""

    def __init__(self, node, position=None):
        self.node, self.position = node, position


def value_of(node):
    """What tracing saw of a node; of some operators only what is picked from their results."""
    val = node.meta.get("val")
    if val is not None:
        return val
    picks = [user for user in node.users if user.target is operator.getitem and user.args[0] is node]
    if not picks or len(picks) != len(node.users):
        return None
    known = {user.args[1]: value_of(user) for user in picks}
    return tuple(known.get(i) for i in range(max(known) + 1))


def _paths(tree, path=()):
    """Where the leaves of nested tuples are."""
    if not isinstance(tree, (list, tuple)):
        return [path]
    return [found for i, part in enumerate(tree) for found in _paths(part, (*path, i))]


def _values(tree):
    """The graph's values in nested tuples."""
    if isinstance(tree, (list, tuple)):
        for part in tree:
            yield from _values(part)
    elif type(tree) is Value:
        yield tree


def random_kind(target) -> bool:
    """Whether an operator may use the random generator: its place among those that do is kept."""
    if isinstance(target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in target.tags
    return isinstance(target, torch._ops.HigherOrderOperator)


def _memory_order(fake):
    """The axes of a dense tensor from the outermost one in memory, or None for a tensor in row-major order, with gaps or
    with symbolic strides."""
    shape, strides = fake.shape, fake.stride()
    if not all(type(n) is int for n in (*shape, *strides)) or fake.is_contiguous():
        return None
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    step = 1
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != step:
            return None
        step *= shape[axis]
    return None if order == sorted(order) else order
