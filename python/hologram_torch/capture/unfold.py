# hologram_torch/capture/unfold.py: operators that only call a graph, or another operator, as the operators that these run
"""hints_wrapper and its like say something of a graph; out_dtype and associative_scan are made of other operators. Compilers may
know better ways to run them; here their operators take their place in the graph, and none of them is PyTorch's to run."""

import contextlib
import operator

import torch
from torch._ops import HigherOrderOperator
from torch.fx.experimental.proxy_tensor import make_fx

from .. import counters
from ..translate import sharing
from . import decomp

_CALLS = {  # name: operands of the graph that is the first argument
    "hints_wrapper": lambda node: node.args[1],
    "strict_mode": lambda node: node.args[1],
    "foreach_map": lambda node: node.args[1:],
    "invoke_quant": lambda node: node.args[1:],
}
_MADE_OF_OTHERS = ("out_dtype", "associative_scan")


_STRIDED = torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default


def _of_the_whole(node):
    """Has a view of a storage be taken of the tensor that has all of it, not of a part, whose copy lacks what lies between its elements."""
    part, size, stride, *offset = (*node.args, *node.kwargs.values())
    whole = sharing.base_of(part)
    offset = offset[0] if offset and offset[0] is not None else part.meta["val"].storage_offset()
    if whole is not part and isinstance(offset, (int, torch.fx.Node)):
        node.args, node.kwargs = (whole, size, stride, offset), {}


def unfold(module) -> None:
    """Changes a captured graph in place."""
    for target in _STRIDED:
        for node in module.graph.find_nodes(op="call_function", target=target):
            _of_the_whole(node)
    for node in module.graph.nodes:
        if isinstance(node.target, HigherOrderOperator) and node.target._name == "run_with_rng_state" and "val" not in node.meta:
            node.meta["val"] = _seen(node)
    kinds = (*_CALLS, *_MADE_OF_OTHERS)
    while found := [n for n in module.graph.nodes if isinstance(n.target, HigherOrderOperator) and n.target._name in kinds]:
        moved = set()
        if not any([_unfolded(module, node, moved) for node in found]):  # all of them, what is inside in the next turn
            break
        _laid_anew(module, moved)
        module.recompile()


def _seen(node):
    """What an operator gives that PyTorch runs once more, with the numbers of the first time: no tracing has seen it."""
    _, operator, *args = torch.fx.map_arg(node.args, lambda n: n.meta.get("val"))
    kwargs = torch.fx.map_arg(dict(node.kwargs), lambda n: n.meta.get("val"))
    mode = torch._guards.detect_fake_mode([n.meta.get("val") for n in node.graph.find_nodes(op="placeholder")])
    with mode or contextlib.nullcontext():
        return operator(*args, **kwargs)


def _strides(value):
    """Of the tensors of known sizes in it."""
    tensors = (x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor))
    return [x.stride() for x in tensors if not x._has_symbolic_sizes_strides]


def _laid_anew(module, moved):
    """What follows nodes whose results lie otherwise than the operator's own fake ones did (those of a scan along another axis)."""
    mode = torch._guards.detect_fake_mode([n.meta.get("val") for n in moved])
    for node in module.graph.nodes if mode else ():
        inputs = node.all_input_nodes
        known = not isinstance(node.target, HigherOrderOperator) and all("val" in n.meta for n in (node, *inputs))
        if node.op == "call_function" and known and _strides(node.meta["val"]) and moved.intersection(inputs):
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            with mode, torch.no_grad():
                before, node.meta["val"] = node.meta["val"], node.target(*args, **kwargs)
            if _strides(before) != _strides(node.meta["val"]):
                moved.add(node)


def _unfolded(module, node, moved) -> bool:
    if node.target._name in _CALLS:
        body, operands = operator.attrgetter(node.args[0].target)(module), _CALLS[node.target._name](node)
    else:
        body, operands = _traced(module, node)
    if not isinstance(body, torch.fx.GraphModule):
        return False
    (output,) = body.graph.find_nodes(op="output")
    several = isinstance(output.args[0], (list, tuple))
    if several and not all(user.target is operator.getitem for user in node.users):
        return False
    results = _copied(module, node, body, operands)
    if not several:
        node.replace_all_uses_with(results)
    for pick in list(node.users):
        result = results[pick.args[1]]
        if isinstance(result, torch.fx.Node) and _strides(result.meta.get("val")) not in ([], _strides(pick.meta.get("val"))):
            moved.add(result)
        pick.replace_all_uses_with(result)
        module.graph.erase_node(pick)
    module.graph.erase_node(node)
    return True


def _copied(module, node, body, operands):
    """Copies the nodes of a graph before `node` → what it returns."""
    given, copies = iter(operands), {}
    for inner in body.graph.nodes:
        if inner.op == "placeholder":
            copies[inner] = next(given)
        elif inner.op == "output":
            return torch.fx.map_arg(inner.args[0], copies.__getitem__)
        else:
            with module.graph.inserting_before(node):
                copies[inner] = copy = module.graph.node_copy(inner, copies.__getitem__)
            copy.meta = {"stack_trace": node.meta.get("stack_trace"), **inner.meta}
            if inner.op == "get_attr":
                copy.target = f"{node.name}_{inner.target.replace('.', '_')}"
                setattr(module, copy.target, operator.attrgetter(inner.target)(body))
    raise ValueError("a graph without an output")


def _traced(module, node):
    """(the graph of what the operator does, its operands), or (None, None) where sizes are symbols: how many steps there are
    depends on them."""
    attributes = {n: operator.attrgetter(n.target)(module) for n in node.all_input_nodes if n.op == "get_attr"}
    operands = [n for n in node.all_input_nodes if not isinstance(attributes.get(n), torch.nn.Module)]
    fakes = [n.meta["val"] for n in operands]
    mode = torch._guards.detect_fake_mode(fakes)
    if mode is None or any(not isinstance(f, torch.Tensor) or f._has_symbolic_sizes_strides for f in fakes):
        return None, None
    dense = node.target.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd]

    def run(*values):
        known = {**attributes, **dict(zip(operands, values, strict=True))}
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), known.__getitem__)
        return dense(*args, **kwargs)

    try:
        with mode, torch.no_grad():
            return make_fx(run, decomposition_table=decomp.table())(*fakes), operands
    except Exception as error:
        counters.log.debug("%s stays whole: %s", node.target, error, exc_info=True)
        return None, None
