# hologram_torch/translate/sharing.py: which results of a graph are one memory
"""Results that are views of one value share its memory, as in eager. All others are tensors of their own, whatever their values
are: a clone is no view."""

import operator

import torch
from torch.fx import Node


def find(returned, hidden, symbolic, written=()) -> dict:
    """Nodes whose memory several of a graph's results share, and whether a user sees more than one of them. `hidden`: positions of
    results that no user sees: one that a user sees as well is the same tensor; views share memory only where PyTorch reads offsets
    from it, with symbolic sizes, of what is returned before them, and of what is `written` into arguments, whose views it makes so."""
    seen, shared = {}, {}
    written = set(map(root_of, written))
    for position, item in enumerate(returned):
        if not isinstance(item, Node):
            continue
        root = root_of(item)
        if position not in hidden:
            if root in seen:
                shared[root] = shared.get(root, False) or item is not seen[root]
            seen.setdefault(root, item)
            if symbolic and root in written and item is not root:
                shared.setdefault(root, False)
        elif item is root and item in seen or symbolic and root in returned[:position]:
            shared.setdefault(root, False)
    return shared


def root_of(node):
    """The node that a chain of views begins at; itself for a node that is no view."""
    while (source := source_of(node)) is not None:
        node = source
    return node


def base_of(node):
    """The first node of this chain that the node is a view of by sizes, strides and an offset alone."""
    while (source := source_of(node)) is not None and _flags(source.meta["val"]) == _flags(node.meta["val"]):
        node = source
    return node


VIEW, DETACHED, APART = range(3)
"""How a tensor belongs to one that it shares memory with: a view for autograd, none for autograd, with a version counter of its own."""


def bond(node, base) -> int:
    """How a view of `base` belongs to it."""
    found = VIEW
    while node is not base:
        call = call_of(node)
        found = max(found, APART if call.target in _UNSAFE else DETACHED if call.target in _DETACHING else VIEW)
        node = call.args[0]
    return found


def reinterpreted(val, base) -> bool:
    """Whether two tensors of one memory differ by sizes, strides, an offset and the dtype alone."""
    return _flags(val)[1:] == _flags(base)[1:]


def source_of(node):
    """What the node is a view of, or None."""
    call = call_of(node)
    if not is_view(getattr(call, "target", None)) or not isinstance(call.args[0], Node):
        return None
    source = call.args[0]
    return source if _same_memory(node.meta.get("val"), source.meta.get("val")) else None


_DETACHING = {torch.ops.aten.detach.default}
# Views that autograd is not to know of: their schemas do not say that they are any.
_UNSAFE = {torch.ops.aten.unsafe_split.Tensor, torch.ops.aten.unsafe_split_with_sizes.default, torch.ops.aten._unsafe_view.default}


def call_of(node):
    """The call that gives the node, which may be one of its results."""
    return node.args[0] if node.target is operator.getitem else node


def is_view(target) -> bool:
    """Whether results of an operator may share its operand's memory."""
    return isinstance(target, torch._ops.OpOverload) and (target.is_view or target in _UNSAFE)


def _same_memory(val, base) -> bool:
    if not (isinstance(val, torch.Tensor) and isinstance(base, torch.Tensor)):
        return False
    if val.layout is not torch.strided or base.layout is not torch.strided:
        return False
    return val.untyped_storage()._cdata == base.untyped_storage()._cdata


def _flags(val):
    return val.dtype, val.is_neg(), val.dtype.is_complex and val.is_conj()
