# hologram_torch/translate/loose.py: results whose sizes PyTorch's kernels choose, whatever tracing promised
"""How many elements a sparse tensor stores is 0 to tracing, and so is what is made of these.

What embedding_bag keeps for its backward pass is empty where a kernel does without it, which depends on dtype, mode and
layout; tracing states other sizes. Where only the backward operators read it, the graph hands it on unseen."""

import operator

import torch

aten = torch.ops.aten
_FORWARD = (aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
_BACKWARD = (
    aten._embedding_bag_backward.default,
    aten._embedding_bag_dense_backward.default,
    aten._embedding_bag_sparse_backward.default,
    aten._embedding_bag_per_sample_weights_backward.default,
)
_KEPT = ("offset2bag", "bag_size", "maximum_indices")


def find(graph) -> set:
    """Nodes of a graph that are such results: picked from the operator, or arguments of a backward graph."""
    found = set()
    for node in graph.nodes:
        picked = node.target is operator.getitem and node.args[1] > 0 and node.args[0].target in _FORWARD
        given = node.op == "placeholder" and any(user.op != "output" for user in node.users)
        if (picked or given) and all(user.op == "output" or _only_kept(node, user) for user in node.users):
            found.add(node)
    return found


_STORED = ("_indices", "_values", "indices", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices")


def unsized(graph) -> set:
    """Nodes whose sizes follow from how many elements a sparse tensor stores."""
    found = set()
    sparse = any(isinstance(n.meta.get("val"), torch.Tensor) and n.meta["val"].layout is not torch.strided for n in graph.nodes)
    if not sparse and not any(node.meta.get("unsized") for node in graph.find_nodes(op="placeholder")):
        return found
    for node in graph.nodes:
        val = node.meta.get("val")
        if node.op == "placeholder":
            empty = sparse and isinstance(val, torch.Tensor) and val.layout is torch.strided and 0 in val.shape
            follows = empty or node.meta.get("unsized")
        else:
            stored = isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name.removeprefix("aten::") in _STORED
            follows = stored or any(source in found for source in node.all_input_nodes)
        if follows and not (isinstance(val, torch.Tensor) and val.layout is torch.strided and val.dim() == 0):
            node.meta["unsized"] = True
            found.add(node)
    return found


def _only_kept(node, user) -> bool:
    """Whether the user reads the node as nothing but what the forward operator kept."""
    if user.target not in _BACKWARD:
        return False
    names = [argument.name for argument in user.target._schema.arguments]
    read = [*zip(names, user.args, strict=False), *user.kwargs.items()]
    return all(name in _KEPT for name, value in read if value is node)
