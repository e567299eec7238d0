# hologram_torch/translate/inplace.py: writes into a part of an argument, kept from copying the whole of it
"""A cache that holds several tensors, `cache[0].index_copy_(2, position, keys)`, reaches us as

    part = select(cache, 0, 0); new = index_copy(part, 2, position, keys); all = select_scatter(cache, new, 0, 0)
    copy_(cache, all)

which reads and writes the whole cache. Each such step is one scatter into the flattened cache; scatters of an argument
that are only written back to it happen in place."""

import dataclasses

import torch

from ..graph.builder import contiguous_strides, numel
from ..lowering.indexing import checked
from ..lowering.views import axis_of

aten = torch.ops.aten
_PUTS = (aten.index_copy.default, aten.index_put.default)


@dataclasses.dataclass
class Chain:
    """Steps that update one placeholder: select_scatter node → (axis of the part, its number, axis written along,
    index node, source node, whether negative indices count from the end). The argument's axes up to `last` are handled as one."""

    last: int
    steps: dict


def find(graph) -> dict:
    """Placeholder → Chain, for placeholders that are updated in parts only."""
    chains = {}
    for node in graph.nodes:
        if node.target is aten.copy_.default and node.args[0].op == "placeholder":
            chain = _trace(node.args[0], node.args[1])
            if chain is not None:
                chains[node.args[0]] = chain
    return chains


def _trace(placeholder, node):
    val = placeholder.meta.get("val")
    if not isinstance(val, torch.Tensor) or not val.is_contiguous() or node is placeholder:
        return None
    steps = {}
    while node is not placeholder:
        step = _step(node, val.dim())
        if step is None:
            return None
        steps[node] = step
        node = node.args[0]
    lasts = {max(axis, along) for axis, _, along, *_ in steps.values()}
    return Chain(lasts.pop(), steps) if len(lasts) == 1 else None


def _step(node, rank):
    if getattr(node, "target", None) is not aten.select_scatter.default or len(node.args) < 4:
        return None
    base, part, axis, number = node.args[:4]
    if getattr(part, "target", None) not in _PUTS or type(number) is not int:
        return None
    old = part.args[0]
    axis = axis_of(axis, rank)
    if old.target is not aten.select.int or old.args[0] is not base:
        return None
    if axis_of(old.args[1], rank) != axis or old.args[2] != number:
        return None
    if part.target is aten.index_copy.default:
        along, index, source = axis_of(part.args[1], rank - 1), part.args[2], part.args[3]
    else:
        named = [i for i, index in enumerate(part.args[1]) if index is not None]
        if len(named) != 1 or len(part.args) > 3 and part.args[3]:
            return None
        along, index, source = named[0], part.args[1][named[0]], part.args[2]
    index_val = index.meta.get("val")
    if index_val is None or index_val.dim() != 1 or index_val.dtype not in (torch.int64, torch.int32):
        return None
    wraps = part.target is not aten.index_copy.default
    return axis, number % base.meta["val"].shape[axis], along + (along >= axis), index, source, wraps


def flat_shape(shape, last):
    return [numel(shape[: last + 1]), *shape[last + 1 :]]


def scatter_step(c, flat, shape, last, axis, number, along, index, source, wraps):
    """The flat argument after one step; index and source are values."""
    inner = [i for i in range(len(shape)) if i != axis]
    lead = [i for i in inner if i <= last]
    count = index.shape[0]
    places = [count if i == along else shape[i] for i in lead]
    index = c.cast(index, "i64")
    position = checked(c, [index], [shape[along]], wrap=wraps, beyond=numel(shape[: last + 1]))
    strides = contiguous_strides(shape[: last + 1])
    wide = [1] * len(places)
    wide[lead.index(along)] = count
    # A position out of range stays so, whatever is added to it.
    at = c.mul(c.reshape(position, wide), c.scalar(strides[along], "i64"))
    at = c.add(at, c.scalar(number * strides[axis], "i64"))
    for k, i in enumerate(lead):
        if i != along:
            at = c.add(at, c.mul(c.iota("i64", places, k), c.scalar(strides[i], "i64")))
    wanted = [*places, *shape[last + 1 :]]
    source = c.broadcast(c.cast(source, flat.dtype), wanted)
    return c.scatter(flat, c.broadcast(at, places), source, 0)
