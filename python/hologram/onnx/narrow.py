# hologram/onnx/narrow.py: products, convolutions and tables with weights of 8 and 4 bits
# mypy: ignore-errors
"""Rows for what `quantize` puts in the place of a model's nodes. values, scales: constants; then the node's other operands."""

import numpy as np

from hologram import _quantised
from hologram._graph import numel
from hologram._quantised import Quantised
from hologram.onnx.call import is_known, plain
from hologram.onnx.convolution import Geometry, convolved, with_bias
from hologram.onnx.table import operator

DOMAIN = "hologram"


def _product(call, x, bias, function):
    """function of x as rows, with the bias behind it."""
    b, x = call.b, call.value(x)
    y = function(b, b.reshape(x, [numel(x.shape[:-1]), x.shape[-1]]))
    y = b.reshape(y, [*x.shape[:-1], y.shape[-1]])
    return y if bias is None else b.ew("add", y, call.value(bias))


def _ranged(b, x, axes):
    """Step and zero point of x along these axes: bytes 0 … 255 from its least to its largest value, 0 among them."""
    low, high = (b.ew(op, b.reduce(op, x, axes, True), 0) for op in ("min", "max"))
    step = b.div(b.sub(high, low), 255)
    zero = b.ew("round", b.where(b.ew("lt", b.number("f32", 0), step), b.div(b.ew("neg", low), step), step))
    return step, zero


def _known(call, b, rank):
    """Step and zero point that calibration found."""
    return b.number("f32", call.attr("step"), [1] * rank), b.number("f32", call.attr("zero"), [1] * rank)


def _bytes(b, x, step, zero):
    inverse = b.where(b.ew("lt", b.number("f32", 0), step), b.div(1.0, step), step)
    q = b.ew("add", b.ew("round", b.mul(x, inverse)), zero)
    return b.cast(b.cast(b.ew("min", b.ew("max", q, 0), 255), "i32"), "u8")


@operator("MatMulDynamic", "GemmDynamic", "MatMulStatic", "GemmStatic", domain=DOMAIN, fold=False)
def of_bytes(call, values, scales, x, bias=None):
    """Each row of x as bytes with a step and a zero point of its own, or all of them with those that calibration found."""

    def product(b, rows):
        static = call.attr("step") is not None
        step, zero = _known(call, b, 2) if static else _ranged(b, rows, [1])
        q = _bytes(b, rows, step, zero)
        w, steps = (b.permute(v, [1, 0]) for v in call.values(values, scales))
        zero = int(call.attr("zero")) if static else b.cast(zero, "i32")
        return _quantised.scaled_sums(b, Quantised(q, step, zero), Quantised(w, steps, None), None)

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


# --- convolutions


def _weight(call, values, scales):
    """As float32, noted as bytes with a scale for each result."""
    b = call.b
    q, s = call.values(values, scales)
    s = b.reshape(s, [q.shape[0], *[1] * (len(q.shape) - 1)])
    w = b.mul(b.cast(q, "f32"), s)
    b.quantised[w.id] = Quantised(q, s, None)
    return w


@operator("ConvDynamic", "ConvStatic", domain=DOMAIN, fold=False)
def conv_of_bytes(call, values, scales, x, bias=None):
    """The images of a call as bytes with one step and zero point, found in the call or by calibration."""
    b, w, image = call.b, _weight(call, values, scales), call.lift(x)
    rank, static = len(w.shape), call.attr("step") is not None
    g = Geometry(call, list(image.shape[2:]), w.shape[2:])
    x = call.value(image)
    step, zero = _known(call, b, rank) if static else _ranged(b, x, list(range(rank)))  # 0, a border's number, is in every range
    if not static and any((*g.low, *g.high)):  # the zero point of its border is found in the call
        low = [0, 0, *g.low]
        x = b.pad(x, low, plain([n + a + z for n, a, z in zip(image.shape, low, [0, 0, *g.high])]), 0)
        g.low, g.high = [0] * (rank - 2), [0] * (rank - 2)
    q = _bytes(b, x, step, zero)
    y = b.mul(b.sub(b.cast(q, "f32"), zero), step)
    b.quantised[y.id] = Quantised(q, step, int(call.attr("zero")) if static else b.cast(zero, "i32"))
    return with_bias(b, convolved(b, y, w, g, call.attr("group", 1)), call.value(bias), rank - 2)
