# hologram_torch/translate/cut.py: a graph in parts, with the operators between them that no part can hold
"""How large a result is may be known only once it is there (nonzero, unique, a size read from a tensor), and some operators
cannot be steps of a native graph at all. PyTorch runs these between parts of the graph, which are compiled as if each were a
graph: sizes that came out before a part are arguments of it."""

import dataclasses
import operator

import torch

from . import sharing
from .calls import random_kind, value_of
from .translator import only_checks


def symbols_of(val) -> set:
    """The symbols in sizes and strides of what tracing saw."""
    if isinstance(val, (list, tuple)):
        return set().union(*map(symbols_of, val))
    if isinstance(val, torch.SymInt):
        return set(val.node.expr.free_symbols)
    if isinstance(val, torch.Tensor) and val.layout is torch.strided:
        return set().union(*(p.node.expr.free_symbols for p in (*val.shape, *val.stride()) if isinstance(p, torch.SymInt)))
    return set()


def places(graph) -> set:
    """Operators whose results have sizes that nothing before them tells, where natively computed values depend on these."""
    if not any("unbacked_bindings" in node.meta for node in graph.nodes):
        return set()
    found, known = set(), set()
    computed = set().union(*(symbols_of(value_of(source)) for node in graph.nodes if _is_native(node) for source in node.all_input_nodes))
    for node in graph.nodes:
        fresh = symbols_of(value_of(node)) - known
        known |= fresh
        if node.op == "call_function" and (fresh & computed or _begins_somewhere(node, known) and _seen(node)):
            found.add(node)
    return found


def _is_native(node) -> bool:
    """Whether an operator on tensors has a lowering."""
    from .. import lowering

    if not isinstance(node.target, torch._ops.OpOverload) or isinstance(value_of(node), (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    return lowering.find(node.target) is not None


def _begins_somewhere(node, known) -> bool:
    """Whether no size before it tells where in its operand's memory a view begins."""
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor) or val.layout is not torch.strided or not sharing.is_view(node.target):
        return False
    offset = val.storage_offset()
    return isinstance(offset, torch.SymInt) and not offset.node.expr.free_symbols <= known


def _seen(node) -> bool:
    """Whether a view, or a view of it, is a result."""
    return any(user.op == "output" or sharing.is_view(user.target) and _seen(user) for user in node.users)


def unknown_sizes(graph) -> dict:
    """{symbol: position of the argument that gives it}, where some of the arguments are sizes that tracing did not know."""
    inputs = enumerate(node.meta.get("val") for node in graph.find_nodes(op="placeholder"))
    given = [(val.node, i) for i, val in inputs if isinstance(val, torch.SymInt)]
    symbols = {node.expr: i for node, i in given if node.expr.is_Symbol}
    return symbols if any(node.hint is None for node, _ in given) else {}


def lacks_sizes(graph, body) -> bool:
    """Whether tensors of a graph have sizes that no argument is; `body`: known ones count too."""
    missing = _unread(graph.find_nodes(op="placeholder")).values()
    return any(body or size.node.hint is None for _, _, size in missing)


@dataclasses.dataclass
class Part:
    """Nodes that are compiled together. reads: nodes of the whole graph that are its arguments, and behind them (node, axis) of
    sizes; gives: those nodes that something outside reads."""

    module: torch.fx.GraphModule
    reads: list
    sizes: list
    gives: list

    def same_sizes(self) -> list:
        """[(argument, axis, argument that has this size)] of sizes that tracing did not know."""
        given = unknown_sizes(self.module.graph)
        vals = [n.meta["val"] for n in self.module.graph.find_nodes(op="placeholder")]
        return [
            (at, axis, given[n.node.expr])
            for at, val in enumerate(vals) if isinstance(val, torch.Tensor) and val.layout is torch.strided
            for axis, n in enumerate(val.shape) if isinstance(n, torch.SymInt) and n.node.expr in given
        ]  # fmt: skip


def cut(module, at) -> list:
    """The graph in order: Parts, and single nodes for PyTorch to run. `at`: nodes that no part may hold."""
    levels, single = _levels(module.graph, at)
    (output,) = module.graph.find_nodes(op="output")
    order = []
    for level in range(max(levels.values(), default=0) + 1):
        here = [node for node in levels if levels[node] == level]
        native = [node for node in here if node not in single]
        if native:
            order.append(_part(module, native))
        order += [node for node in here if node in single]
    return order


def _levels(graph, at):
    """→ ({operator: the part that it is in, or that it comes behind}, those that PyTorch runs)"""
    levels, single = {}, set()
    floor = random = 0
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        target = node.target
        if target is operator.getitem and node.args[0] in levels:
            levels[node] = levels[node.args[0]]
            if node.args[0] in single:
                single.add(node)
            continue
        alone = node in at or value_of(node) is None and only_checks(target)
        level = floor
        for source in node.all_input_nodes:
            if source in levels:
                level = max(level, levels[source] + (source in single and not alone))
        if random_kind(target):
            level = max(level, random)
            random = level + (alone and node in at)
        if _writes(target):  # everything that reads what was there comes before
            level = max([level, *levels.values()])
            if not alone and any(levels[n] == level for n in single):
                level += 1
            floor = level + alone
        levels[node] = level
        if alone:
            single.add(node)
    return levels, single


def _writes(target) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _part(module, nodes) -> Part:
    inside, graph, copies = set(nodes), torch.fx.Graph(), {}
    attributes = [n for n in module.graph.find_nodes(op="get_attr") if any(user in inside for user in n.users)]
    reads = [n for n in module.graph.nodes if n not in inside and n.op != "get_attr" and any(user in inside for user in n.users)]
    for node in reads:
        copies[node] = copy = graph.placeholder(node.name)
        copy.meta = dict(node.meta, val=value_of(node))
    sizes = []
    for symbol, (node, axis, size) in _unread(reads).items():
        graph.placeholder(f"size_{symbol}").meta["val"] = size
        sizes.append((node, axis))
    for node in (*attributes, *nodes):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    gives = [n for n in nodes if any(user not in inside for user in n.users) and not _is_tuple(n)]
    graph.output(tuple(copies[n] for n in gives))
    return Part(torch.fx.GraphModule(module, graph), reads, sizes, gives)


def _is_tuple(node) -> bool:
    return isinstance(value_of(node), (list, tuple))


def _unread(reads) -> dict:
    """{symbol: (a tensor that has it as its size, along which axis, the size)} of those that no argument is."""
    given = {val.node.expr for val in map(value_of, reads) if isinstance(val, torch.SymInt)}
    found = {}
    for node in reads:
        val = value_of(node)
        if isinstance(val, torch.Tensor) and val.layout is torch.strided:
            for axis, size in enumerate(val.shape):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.expr not in given:
                    found.setdefault(size.node.expr, (node, axis, size))
    return found
