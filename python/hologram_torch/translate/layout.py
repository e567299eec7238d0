# hologram_torch/translate/layout.py: how activations that are saved for the backward pass lie in memory
"""Convolutions compute channels-last, whatever PyTorch promised of their results. What a forward graph leaves for its
backward graph alone may lie as it was computed: PyTorch compiles the backward graph for the strides that are reported
to its tracing context."""

import torch
from torch.fx import Node

aten = torch.ops.aten
_CONVOLUTIONS = (aten.convolution.default, aten._convolution.default)


def _tensors(node):
    val = node.meta.get("val")
    return [v for v in (val if isinstance(val, (list, tuple)) else [val]) if isinstance(v, torch.Tensor)]


def _is_image(val) -> bool:
    """Of two or more spatial axes, all sizes known."""
    return val.dim() >= 4 and all(type(n) is int for n in (*val.shape, *val.stride()))


def _images(graph) -> set:
    """Convolutions' results and what follows from them without moving elements."""
    found = set()
    for node in graph.nodes:
        if node.op != "call_function" or not any(_is_image(v) for v in _tensors(node)):
            continue
        follows = any(a in found for a in node.all_input_nodes)
        if node.target in _CONVOLUTIONS or (follows and not getattr(node.target, "is_view", False)):
            found.add(node)
    return found


def channels_last(shape) -> list:
    """Strides of [n, c, d…] stored as [n, d…, c]."""
    strides, step = [0] * len(shape), 1
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return strides


def returned(graph) -> list:
    """What a graph returns, by position."""
    (values,) = next(iter(graph.find_nodes(op="output"))).args
    return list(values) if isinstance(values, (list, tuple)) else [values]


def hidden(graph, kind: str) -> range:
    """Positions of results that no user sees: gradients, and what a forward graph leaves for its backward graph."""
    results = range(len(returned(graph)))
    if kind == "backward":
        return results
    metadata = getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None) if kind == "forward" else None
    try:
        return results[len(metadata.tokens) :][metadata.tensors_saved_for_backwards_slice]  # effect tokens come first
    except (AttributeError, AssertionError):  # no training, or another version of PyTorch
        return results[:0]


def saved(graph, positions) -> dict:
    """Strides by position among the results of a forward graph, for images that only its backward graph reads."""
    results = returned(graph)
    shown = {item for n, item in enumerate(results) if n not in positions}
    images, out = _images(graph), {}
    for n in positions:
        item = results[n]
        if not isinstance(item, Node) or item in shown or item not in images:
            continue
        val = item.meta["val"]
        if isinstance(val, torch.Tensor) and _is_image(val) and val.is_contiguous():
            out[n] = channels_last(val.shape)
    return out


def report(graph, layouts: dict):
    """Tells PyTorch the strides of a forward graph's results where they are not what tracing promised."""
    context = torch._guards.TracingContext.try_get()
    strides = getattr(context, "output_strides", None)
    if layouts and strides is not None and not strides:
        strides.extend(tuple(layouts[n]) if n in layouts else None for n in range(len(returned(graph))))


def adopt(module, examples):
    """Gives the placeholders of a backward graph the strides of what it will be called with."""
    for node, example in zip(module.graph.find_nodes(op="placeholder"), examples, strict=False):
        val = node.meta.get("val")
        if not isinstance(val, torch.Tensor) or not isinstance(example, torch.Tensor):
            continue
        if _is_image(val) and _is_image(example) and val.stride() != example.stride():
            node.meta["val"] = val.as_strided(val.shape, example.stride())
