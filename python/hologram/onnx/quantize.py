# hologram/onnx/quantize.py: a float32 model's products and tables with weights of 8 and 4 bits
# mypy: ignore-errors
"""Rewrites a graph while it is read: MatMul and Gemm with a constant matrix, and Conv with a constant weight where that is faster, become
products with its narrow numbers, Gather of a matrix' rows a look-up of them (rows in `narrow`). What the graph reads in other ways
stays as it is."""

import copy
import math

import numpy as np

from hologram import _quantised
from hologram.onnx import table
from hologram.onnx.graph import captures_of
from hologram.onnx.narrow import DOMAIN

GROUP = 64  # neighbours along the summed axis that share a scale of 4 bits
DEEPEST = 65_000  # products of 255 and 127 that 32 bits sum without overflow, with room for the zero point's


def rewrite(graph, mode, ranges=None):
    """Changes the nodes and constants of `graph`. ranges: by name of a value its least and largest, for "static-int8"."""
    made, nodes = {}, []
    for node, kind in zip(graph.nodes, _kinds(graph, mode)):
        nodes.append(_narrowed(graph, node, kind, made, ranges) if kind else node)
    graph.nodes = nodes
    read = {name for node in nodes for name in node.inputs} | set(graph.outputs) | set(graph.captured)
    read |= {name for node in nodes for name in captures_of(node)}
    graph.constants = {name: value for name, value in graph.constants.items() if name in read}
    graph.last = graph._last_uses()


def observe(graph, mode, run):
    """The ranges of what the nodes that rewrite() changes are given. run(names): for each call the values of these names."""
    names = list(dict.fromkeys(n.inputs[0] for n, kind in zip(graph.nodes, _kinds(graph, mode)) if kind == "Static"))
    ranges = {}
    for values in run(names) if names else ():
        for name, value in zip(names, values, strict=True):
            if value.size:
                low, high = ranges.get(name, (0.0, 0.0))
                ranges[name] = min(low, float(value.min())), max(high, float(value.max()))
    missing = [name for name in names if name not in ranges]
    if missing:
        raise ValueError(f"from_onnx: calibrate: no call gave values to {missing[0]!r}")
    return ranges


def _kinds(graph, mode):
    """By node what takes its place, or None."""
    for node in graph.nodes:
        _turned(graph, node)
    return [_kind(graph, node, mode) for node in graph.nodes]


def _turned(graph, node):
    """A constant that is transposed before it is multiplied, as exporters write linear layers."""
    if node.op == "Transpose" and node.domain == "" and _is_matrix(graph, node.inputs[0]):
        if list(node.attributes.get("perm", [1, 0])) == [1, 0] and node.outputs[0] not in graph.outputs:
            graph.constants[node.outputs[0]] = graph.constants[node.inputs[0]].T


def _is_matrix(graph, name):
    value = graph.constants.get(name)
    return value is not None and value.ndim == 2 and value.dtype == np.float32


def _kind(graph, node, mode):
    own = {"dynamic-int8": "Dynamic", "static-int8": "Static", "weight-int8": "Bytes", "weight-int4": "Halves"}[mode]
    if node.domain != "":
        return None
    if node.op == "Conv":
        weight = graph.constants.get(node.inputs[1])
        if own not in ("Dynamic", "Static") or weight is None or weight.dtype != np.float32 or not weight.size:
            return None
        taps, strides = math.prod(weight.shape[2:]), math.prod(node.attributes.get("strides", []))
        pays = _quantised.pays(len(weight) // node.attributes.get("group", 1), weight[0].size, taps, strides, own == "Dynamic")
        return own if pays else None
    rows = _rows(graph, node)
    if rows is None or rows.shape[0] < _quantised.LEAST_RESULTS or not _quantised.LEAST_DEPTH <= rows.shape[1] <= DEEPEST:
        return None
    if node.op == "Gather":
        return "Rows"
    return "Bytes" if own == "Halves" and rows.shape[1] % 2 else own


def _rows(graph, node):
    """The constant matrix that a node multiplies by or finds rows of, a row for each result, or None."""
    if node.op not in ("MatMul", "Gemm", "Gather"):
        return None
    at = 0 if node.op == "Gather" else 1
    plain = node.op != "Gemm" or all(node.attributes.get(k, d) == d for k, d in (("alpha", 1.0), ("beta", 1.0), ("transA", 0)))
    if not plain or not _is_matrix(graph, node.inputs[at]) or node.op == "Gather" and node.attributes.get("axis", 0) != 0:
        return None
    weight = graph.constants[node.inputs[at]]
    return weight if node.op == "Gather" or node.attributes.get("transB", 0) else weight.T


def _narrowed(graph, node, kind, made, ranges):
    """What takes the node's place."""
    at = 0 if node.op == "Gather" else 1
    weight = graph.constants[node.inputs[at]]
    rows = weight.reshape(len(weight), -1) if node.op == "Conv" else _rows(graph, node)
    key = (weight.__array_interface__["data"][0], rows.shape, rows.strides, weight.shape, kind == "Halves")
    if key not in made:
        name = f"{node.inputs[at]}:{'halves' if kind == 'Halves' else 'bytes'}"
        values, scales = to_halves(rows) if kind == "Halves" else to_bytes(rows)
        values = values.reshape(weight.shape) if node.op == "Conv" else values
        graph.constants[name], graph.constants[f"{name}:scales"] = values, scales
        made[key] = name
    out = copy.copy(node)
    out.op, out.domain, out.row = f"{node.op}{kind}", DOMAIN, table.find(DOMAIN, f"{node.op}{kind}", 1)
    if kind == "Static":
        low, high = ranges[node.inputs[0]]
        step = float(np.float32((high - low) / 255))
        out.attributes = {**node.attributes, "step": step, "zero": float(np.rint(-low / step)) if step else 0.0}
    out.inputs = [made[key], f"{made[key]}:scales", *[name for i, name in enumerate(node.inputs) if i != at]]
    return out


def to_bytes(rows):
    """rows [results, depth] → int8 of the same shape, scales [results, 1]."""
    scales = np.maximum(np.abs(rows).max(1, keepdims=True) / np.float32(127), np.finfo(np.float32).tiny)
    return np.rint(rows / scales).astype(np.int8), scales


def to_halves(rows):
    """rows [results, depth] → uint8 [results, depth / 2], two neighbours a byte, the first one below, each with 8 added; scales
    [results, groups]. The number of a group farthest from 0 becomes -8."""
    results, depth = rows.shape
    group = next(n for n in range(min(GROUP, depth), 0, -1) if depth % n == 0)
    parts = rows.reshape(results, depth // group, group)
    extreme = np.take_along_axis(parts, np.abs(parts).argmax(2, keepdims=True), 2)
    scales = extreme / np.float32(-8)
    scales = np.where(np.abs(scales) < np.finfo(np.float32).tiny, np.finfo(np.float32).tiny, scales).astype(np.float32)
    whole = (np.clip(np.rint(parts / scales), -8, 7).astype(np.int8) + 8).astype(np.uint8).reshape(results, depth // 2, 2)
    return whole[:, :, 0] | whole[:, :, 1] << 4, scales[:, :, 0]
