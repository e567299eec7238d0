# hologram_torch/capture/partition.py: what a forward pass leaves for its backward pass, and what is computed again there
"""PyTorch's minimum cut of the joint graph finds the fewest bytes to keep, given what may be computed again: element-wise values
and sums, not products, attention or convolutions. It is told here what it does not see: that a result of such a chain is worth
computing again where a product reads it too (one pass over memory that is warm, against memory kept from pass to pass), that what
layer norm gives follows from its operand and the statistics of its rows, and that views of one value are kept once, as that value."""

import operator

import torch
from torch.utils.checkpoint import CheckpointPolicy

from ..translate import sharing

aten = torch.ops.aten


def partition(joint, inputs, *, num_fwd_outputs, **named):
    """→ (forward module, backward module), as AOTAutograd's partition_fn."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._functorch import config

    _tangents(joint.graph, num_fwd_outputs)
    _prepare(joint.graph, num_fwd_outputs)
    joint.recompile()
    with config.patch(ban_recompute_materialized_backward=False):
        return min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **named)


def _tangents(graph, num_fwd_outputs) -> None:
    """Gradients of results come in the types of these, where decompositions give eager's in place of what tracing promised."""
    (output,) = graph.find_nodes(op="output")
    given = dict(zip(output.meta.get("desc", ())[:num_fwd_outputs], output.args[0][:num_fwd_outputs]))
    for node in graph.find_nodes(op="placeholder"):
        result = given.get(getattr(node.meta.get("desc"), "output", None))
        val, made = (n.meta.get("val") if isinstance(n, torch.fx.Node) else None for n in (node, result))
        if not (isinstance(val, torch.Tensor) and isinstance(made, torch.Tensor)) or val.dtype == made.dtype:
            continue
        with graph.inserting_after(node):
            cast = graph.call_function(aten._to_copy.default, (node,), {"dtype": val.dtype})
        node.replace_all_uses_with(cast, delete_user_cb=lambda user, cast=cast: user is not cast)
        cast.meta["val"], node.meta["val"] = val, val.to(made.dtype)


def _prepare(graph, num_fwd_outputs) -> None:
    (output,) = graph.find_nodes(op="output")
    forward = ancestors(output.args[0][:num_fwd_outputs])
    _plain(graph, output, forward)
    norms(graph, output, forward)
    _views(graph, output, forward)


def _plain(graph, output, forward) -> None:
    """Views as the cut knows them, and none that only autograd tells from their values."""
    for node in list(graph.nodes):
        if node.target in (aten.detach.default, aten.alias.default):
            for user in read_later(node, output, forward):
                user.replace_input_with(node, node.args[0])
        elif node.target is aten.transpose.int:
            source, first, second = node.args
            order = list(range(source.meta["val"].dim()))
            if order:
                order[first], order[second] = order[second], order[first]
            node.target, node.args = aten.permute.default, (source, order)


def ancestors(nodes) -> set:
    """The nodes and all that they are computed from."""
    found, left = set(), [node for node in nodes if isinstance(node, torch.fx.Node)]
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.all_input_nodes
    return found


def read_later(node, output, forward) -> list:
    """What of the backward pass reads a value of the forward pass."""
    return [user for user in node.users if user is not output and user not in forward]


# --- views
def _views(graph, output, forward) -> None:
    """Views of a value are taken again where they are no less than it, so that the value is kept alone."""
    found = {}  # value → views of it that the backward pass reads
    for node in graph.nodes:
        if node in forward and sharing.root_of(node) is not node and read_later(node, output, forward):
            found.setdefault(sharing.root_of(node), []).append(node)
    for root, views in found.items():
        if root.op == "placeholder":  # in memory anyway
            continue
        if read_later(root, output, forward) or sum(elements(v) for v in views) >= elements(root):
            for view in views:
                while view is not root:
                    compute_again(view)
                    view = view.args[0]
            if not _follows(root, output, forward):
                root.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)


def _follows(node, output, forward) -> bool:
    """Whether a value follows element by element from what the backward pass reads besides."""
    left = [node]
    while left:
        node = left.pop()
        moved = node.target is aten.clone.default or sharing.root_of(node) is not node
        if not moved and torch.Tag.pointwise not in getattr(node.target, "tags", ()):
            return False
        left += [n for n in node.all_input_nodes if n.op != "placeholder" and not read_later(n, output, forward)]
    return True


def elements(node) -> int:
    val = node.meta["val"]
    return val.numel() if isinstance(val.numel(), int) else val.numel().node.hint


def compute_again(node):
    node.meta.setdefault("recompute", CheckpointPolicy.MUST_RECOMPUTE)
    return node


# --- layer norm
def norms(graph, output, forward) -> None:
    """Gives the backward pass results of layer norms from their operands and the statistics that its gradient reads too."""
    again = {}  # node of the forward pass → its value, computed again
    for node in list(graph.nodes):
        if node not in forward or not _of_norm(node):
            continue
        for user in read_later(node, output, forward):
            user.replace_input_with(node, _again(graph, node, again))


def _of_norm(node) -> bool:
    """Whether this is what a layer norm gives, moved at the most."""
    while node.target is aten.clone.default or sharing.root_of(node) is not node:
        node = node.args[0]
    if node.target is not operator.getitem or node.args[1] != 0 or node.args[0].target is not aten.native_layer_norm.default:
        return False
    mean = next((user.meta["val"] for user in node.args[0].users if user.args[1] == 1), None)
    return mean is not None and mean.dtype == torch.promote_types(mean.dtype, torch.float32)


def _again(graph, node, again):
    if node not in again:
        if node.target is operator.getitem:
            again[node] = _normalised(graph, node.args[0], node)
        else:
            source = _again(graph, node.args[0], again)
            with graph.inserting_after(source):
                again[node] = compute_again(graph.node_copy(node, lambda n: source if n is node.args[0] else n))
    return again[node]


def _normalised(graph, norm, result):
    """What layer norm gives, as its lowering has it (lowering/norms.py)."""
    x, _, weight, bias, _ = norm.args
    mean, scale = (_picked(graph, norm, n) for n in (1, 2))
    at = [max((mean, scale, norm), key=list(graph.nodes).index)]

    def call(target, *args, **kwargs):
        with graph.inserting_after(at[-1]):
            node = compute_again(graph.call_function(target, args, kwargs))
        values = torch.fx.map_arg((args, kwargs), lambda n: n.meta["val"])
        node.meta["val"] = target(*values[0], **values[1])
        at.append(node)
        return node

    wide = mean.meta["val"].dtype

    def cast(node, dtype=wide):
        return node if node.meta["val"].dtype == dtype else call(aten._to_copy.default, node, dtype=dtype)

    value = call(aten.mul.Tensor, call(aten.sub.Tensor, cast(x), mean), scale)
    if weight is not None:
        value = call(aten.mul.Tensor, value, cast(weight))
    if bias is not None:
        value = call(aten.add.Tensor, value, cast(bias))
    return cast(value, result.meta["val"].dtype)


def _picked(graph, norm, number):
    for user in norm.users:
        if user.args[1] == number:
            return user
    with graph.inserting_after(norm):
        node = graph.call_function(operator.getitem, (norm, number))
    node.meta["val"] = norm.meta["val"][number]
    return node
