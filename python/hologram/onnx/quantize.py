# hologram/onnx/quantize.py: a float32 model's products and tables with weights of 8 and 4 bits
# mypy: ignore-errors
"""Rewrites a graph while it is read: MatMul and Gemm with a constant matrix become products with its narrow numbers, Gather of its
rows a look-up of them. What the graph reads in other ways stays as it is."""

import copy

import numpy as np

from hologram import _quantised
from hologram._graph import numel
from hologram._quantised import Quantised
from hologram.onnx import table
from hologram.onnx.call import is_known
from hologram.onnx.graph import captures_of
from hologram.onnx.table import operator

MODES = ("dynamic-int8", "weight-int8", "weight-int4")
GROUP = 64  # neighbours along the summed axis that share a scale of 4 bits
DOMAIN = "hologram"
DEEPEST = 65_000  # products of 255 and 127 that 32 bits sum without overflow, with room for the zero point's


def check(mode):
    if mode is not None and mode not in MODES:
        raise ValueError(f"from_onnx: quantize: expected one of {', '.join(MODES)}, got {mode!r}")


def rewrite(graph, mode):
    """Changes the nodes and constants of `graph`."""
    for node in graph.nodes:
        _turned(graph, node)
    made, nodes = {}, []
    for node in graph.nodes:
        nodes.append(_narrow(graph, node, mode, made) or node)
    graph.nodes = nodes
    read = {name for node in nodes for name in node.inputs} | set(graph.outputs) | set(graph.captured)
    read |= {name for node in nodes for name in captures_of(node)}
    graph.constants = {name: value for name, value in graph.constants.items() if name in read}
    graph.last = graph._last_uses()


def _turned(graph, node):
    """A constant that is transposed before it is multiplied, as exporters write linear layers."""
    if node.op == "Transpose" and node.domain == "" and _is_matrix(graph, node.inputs[0]):
        if list(node.attributes.get("perm", [1, 0])) == [1, 0] and node.outputs[0] not in graph.outputs:
            graph.constants[node.outputs[0]] = graph.constants[node.inputs[0]].T


def _is_matrix(graph, name):
    value = graph.constants.get(name)
    return value is not None and value.ndim == 2 and value.dtype == np.float32


def _narrow(graph, node, mode, made):
    """What takes the node's place, or None."""
    if node.domain != "" or node.op not in ("MatMul", "Gemm", "Gather"):
        return None
    at = 0 if node.op == "Gather" else 1
    plain = node.op != "Gemm" or all(node.attributes.get(k, d) == d for k, d in (("alpha", 1.0), ("beta", 1.0), ("transA", 0)))
    if not plain or not _is_matrix(graph, node.inputs[at]) or node.op == "Gather" and node.attributes.get("axis", 0) != 0:
        return None
    weight = graph.constants[node.inputs[at]]
    by_rows = node.op == "Gather" or node.attributes.get("transB", 0)
    rows = weight if by_rows else weight.T  # a row for each result
    if rows.shape[0] < _quantised.LEAST_RESULTS or not _quantised.LEAST_DEPTH <= rows.shape[1] <= DEEPEST:
        return None
    halves = mode == "weight-int4" and node.op != "Gather" and rows.shape[1] % 2 == 0
    key = (weight.__array_interface__["data"][0], rows.shape, rows.strides, halves)
    if key not in made:
        name = f"{node.inputs[at]}:{'halves' if halves else 'bytes'}"
        values, scales = to_halves(rows) if halves else to_bytes(rows)
        graph.constants[name], graph.constants[f"{name}:scales"] = values, scales
        made[key] = name
    out = copy.copy(node)
    kind = "Rows" if node.op == "Gather" else "Halves" if halves else "Dynamic" if mode == "dynamic-int8" else "Bytes"
    out.op, out.domain, out.row = f"{node.op}{kind}", DOMAIN, table.find(DOMAIN, f"{node.op}{kind}", 1)
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


# --- what takes the place of the nodes. values, scales: constants; then the node's other operands


def _product(call, x, bias, function):
    """function of x as rows, with the bias behind it."""
    b, x = call.b, call.value(x)
    y = function(b, b.reshape(x, [numel(x.shape[:-1]), x.shape[-1]]))
    y = b.reshape(y, [*x.shape[:-1], y.shape[-1]])
    return y if bias is None else b.ew("add", y, call.value(bias))


@operator("MatMulDynamic", "GemmDynamic", domain=DOMAIN, fold=False)
def dynamic(call, values, scales, x, bias=None):
    """Each row of x as bytes 0 … 255 with a step and a zero point of its own."""

    def product(b, rows):
        low, high = (b.ew(op, b.reduce(op, rows, [1], True), 0) for op in ("min", "max"))
        step = b.div(b.sub(high, low), 255)
        some = b.ew("lt", b.number("f32", 0), step)
        zero = b.ew("round", b.where(some, b.div(b.ew("neg", low), step), step))
        q = b.ew("add", b.ew("round", b.mul(rows, b.where(some, b.div(1.0, step), step))), zero)
        q = b.cast(b.cast(b.ew("min", b.ew("max", q, 0), 255), "i32"), "u8")
        w, steps = (b.permute(v, [1, 0]) for v in call.values(values, scales))
        return _quantised.scaled_sums(b, Quantised(q, step, b.cast(zero, "i32")), Quantised(w, steps, None), None)

    return _product(call, x, bias, product)


@operator("MatMulBytes", "GemmBytes", "MatMulHalves", "GemmHalves", domain=DOMAIN, fold=False)
def widened(call, values, scales, x, bias=None):
    """Activations as they are."""
    halves = values.dtype == np.uint8

    def product(b, rows):
        q, s = call.values(values, scales)
        results, depth, groups = q.shape[0], q.shape[1] * (2 if halves else 1), s.shape[1]
        if halves:
            parts = b.ew("bit_and", q, b.number("u8", 15)), b.ew("shr", q, b.number("u8", 4))
            q = b.concat([b.unsqueeze(p, 2) for p in parts], 2)
        w = b.cast(b.reshape(q, [results, groups, depth // groups]), "f32")
        w = b.mul(b.sub(w, 8.0) if halves else w, b.unsqueeze(s, 2))
        return b.dot(rows, b.permute(b.reshape(w, [results, depth]), [1, 0]))

    return _product(call, x, bias, product)


@operator("GatherRows", domain=DOMAIN, fold=False)
def gathered(call, values, scales, indices):
    """Rows of a table of bytes, then their scales."""
    found = [np.take(call.lift(v), call.lift(indices) if not is_known(indices) else indices, 0) for v in (values, scales)]
    b = call.b
    q, s = call.values(*found)
    return b.mul(b.cast(q, "f32"), s)
