# hologram_torch/capture/again.py: what a graph of a whole training step computes twice, so that it need not be kept
"""Where loss, gradients and update are one graph, every value that the gradients read would lie in memory from the forward pass on.
The same minimum cut that partition.py has PyTorch find says here what is kept; what follows from that element by element is computed
again just before what reads it. A fence, a view of the bits as integers and back, tells a graph that this is another value, not the
one that it has; what the gradients compute element by element stands behind fences too, as it may be what the forward pass computed."""

import torch

from ..translate import sharing
from . import partition

aten = torch.ops.aten
_BITS = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32, torch.float64: torch.int64}
_MOVED = (aten._to_copy.default, aten.clone.default, aten.detach.default, aten.alias.default)


def spread(module) -> None:
    """Computes values again in a graph whose results are a loss alone, and which writes the rest in place."""
    graph = module.graph
    (output,) = graph.find_nodes(op="output")
    forward = partition.ancestors(output.args[0])
    known = set(graph.nodes)
    partition.norms(graph, output, forward)
    formulas = [node for node in graph.nodes if node not in known]  # of what layer norms give
    forward |= set(formulas)
    kept, made = _kept(graph, output, forward), {}
    for node in list(graph.nodes):
        if node not in forward and node is not output:
            own = not sharing.is_view(node.target)  # a value, not a view of one
            with graph.inserting_before(node):
                for source in node.all_input_nodes:
                    if source in forward and (own and _cheap(node) or sharing.root_of(source) not in kept):
                        node.replace_input_with(source, _again(graph, source, kept, made))
    for node in reversed(formulas):
        if not node.users:
            graph.erase_node(node)
    module.recompile()


def _again(graph, node, kept, made):
    """The value of a node of the forward pass, computed from those kept."""
    if node not in made:
        if sharing.root_of(node) in kept:
            made[node] = _fenced(graph, node)
        else:
            sources = {source: _again(graph, source, kept, made) for source in node.all_input_nodes}
            made[node] = graph.node_copy(node, sources.__getitem__)
    return made[node]


def _fenced(graph, node):
    val = node.meta["val"]
    bits = _BITS.get(val.dtype) if isinstance(val, torch.Tensor) else None
    if bits is None or sharing.root_of(node).op == "placeholder":
        return node
    for dtype in (bits, val.dtype):
        node = graph.call_function(aten.view.dtype, (node, dtype))
        val = node.meta["val"] = val.view(dtype)
    return node


def _kept(graph, output, forward) -> set:
    """The values of the forward pass, views aside, that what comes later reads from memory: of the least bytes, and of those the
    latest."""
    import networkx

    net = networkx.DiGraph()  # from what is not computed again to what is read later
    roots = {sharing.root_of(node) for node in forward}
    for node in roots:
        free = node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor)
        net.add_edge((node, "made"), (node, "value"), capacity=0 if free else _bytes(node))
        if free or not _cheap(node):
            net.add_edge("fixed", (node, "made"))
        else:
            for source in node.all_input_nodes:
                net.add_edge((sharing.root_of(source), "value"), (node, "made"))
    for node in forward:
        if partition.read_later(node, output, forward):
            net.add_edge((sharing.root_of(node), "value"), "readers")
    if "readers" not in net:
        return roots
    _, (_, again) = networkx.minimum_cut(net, "fixed", "readers")  # of equal cuts the one next to the readers
    return {node for node in roots if (node, "made") not in again}


def _cheap(node) -> bool:
    """Whether a value follows element by element from others."""
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags:
        return False
    return torch.Tag.pointwise in tags or node.target in _MOVED or sharing.is_view(node.target)


def _bytes(node) -> int:
    return partition.elements(node) * node.meta["val"].element_size()
