# hologram/onnx/reductions.py: sums, extremes and normalisations along axes
# mypy: ignore-errors
import numpy as np

from hologram._graph import FLOATS
from hologram.onnx.call import is_known, numbers
from hologram.onnx.table import operator


def _axes(call, rank, axes):
    """(the axes that are reduced, whether they stay as 1)"""
    if axes is not None:
        axes = numbers(axes)
    else:
        axes = call.attr("axes")
    keep = bool(call.attr("keepdims", 1))
    if not axes:
        if call.attr("noop_with_empty_axes", 0):
            return [], keep
        return list(range(rank)), keep
    return sorted({int(a) % rank for a in axes}), keep


def reduction(name, form, known=None):
    """form(b, x, axes, keep): x in the type that it is computed in."""

    @operator(name, known=(1,), sizes=known is not None)
    def lower(call, x, axes=None):
        reduced, keep = _axes(call, len(x.shape), axes)
        if known is not None and is_known(x):
            return known(x, axis=tuple(reduced), keepdims=keep).astype(x.dtype)
        b, x = call.b, call.value(x)
        if not reduced and form is plain_forms.get(name):
            return x
        return b.cast(form(b, b.wide(x), reduced, keep), x.dtype)


def _log_sum_exp(b, x, axes, keep):
    top = b.reduce("max", x, axes, True) if axes else x
    finite = b.where(b.eq(b.ew("abs", top), float("inf")), b.number(x.dtype, 0), top)
    total = b.ew("log", _sum(b, b.ew("exp", b.sub(x, finite)), axes, True))
    out = b.add(total, finite)
    return out if keep else b.reshape(out, [n for i, n in enumerate(x.shape) if i not in axes])


def _sum(b, x, axes, keep):
    return b.reduce("sum", x, axes, keep) if axes else x


def _mean(b, x, axes, keep):
    if not axes:
        return x
    if x.dtype in FLOATS:
        return b.mean(x, axes, keep)
    return b.div(b.reduce("sum", x, axes, keep), b.size_value(b.count(x, axes), x.dtype))


def _root(b, x, axes, keep):
    kind = x.dtype if x.dtype in FLOATS else "f64"
    x = b.cast(x, kind)
    return b.ew("sqrt", _sum(b, b.mul(x, x), axes, keep))


def _log(b, x, axes, keep):
    total = _sum(b, x, axes, keep)
    return b.ew("log", total if total.dtype in FLOATS else b.cast(total, "f64"))


def _over_floats(form):
    return lambda b, x, axes, keep: form(b, x if x.dtype in FLOATS else b.cast(x, "f64"), axes, keep)


def _plain(op):
    return lambda b, x, axes, keep: b.reduce(op, x, axes, keep) if axes else x


plain_forms = {}
for _name, _form, _known in (
    ("ReduceSum", _sum, np.sum),
    ("ReduceMax", _plain("max"), np.max),
    ("ReduceMin", _plain("min"), np.min),
    ("ReduceProd", _plain("prod"), np.prod),
    ("ReduceMean", _mean, None),
    ("ReduceL1", lambda b, x, axes, keep: _sum(b, b.ew("abs", x), axes, keep), None),
    ("ReduceL2", _root, None),
    ("ReduceSumSquare", lambda b, x, axes, keep: _sum(b, b.mul(x, x), axes, keep), None),
    ("ReduceLogSum", _log, None),
    ("ReduceLogSumExp", _over_floats(_log_sum_exp), None),
):
    reduction(_name, _form, _known)


@operator("ArgMax", "ArgMin")
def arg_extreme(call, x):
    b, x = call.b, call.value(x)
    axis = call.axis(len(x.shape))
    op = call.node_of_model.op.lower()
    n = x.shape[axis]
    if call.attr("select_last_index", 0):
        at = b.reduce(op, b.flip(x, [axis]), [axis], True)
        at = b.sub(b.size_value(_less(n)), at)
    else:
        at = b.reduce(op, x, [axis], True)
    keep = bool(call.attr("keepdims", 1))
    return at if keep else b.reshape(at, [*x.shape[:axis], *x.shape[axis + 1 :]])


def _less(n):
    return n - 1


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(call, x):
    b, x = call.b, call.value(x)
    shape, rank = x.shape, len(x.shape)
    old = call.version < 13
    axis = call.axis(rank, 1 if old else -1)
    if old and axis != rank - 1:  # the axes from there on are one
        flat = b.reshape(x, [_product(shape[:axis]), _product(shape[axis:])])
        return b.reshape(_along(call, flat, 1), shape)
    return _along(call, x, axis)


def _product(sizes):
    out = 1
    for n in sizes:
        out = n * out
    return out


def _along(call, x, axis):
    y = softmax_along(call.b, x, axis, call.node_of_model.op)
    if call.node_of_model.op == "Softmax" and axis == len(x.shape) - 1:
        call.tracer.softmaxes[y.id] = x
    return y


def softmax_along(b, x, axis, kind="Softmax"):
    if kind == "Hardmax":
        at = b.reduce("argmax", x, [axis], True)
        return b.cast(b.eq(b.iota("i64", x.shape, axis), at), x.dtype)
    wide = b.wide(x)
    off = b.sub(wide, b.reduce("max", wide, [axis], True))
    powers = b.ew("exp", off)
    total = b.reduce("sum", powers, [axis], True)
    out = b.sub(off, b.ew("log", total)) if kind == "LogSoftmax" else b.div(powers, total)
    return b.cast(out, x.dtype)


@operator("CumSum", "CumProd", known=(1,))
def running(call, x, axis):
    b, x = call.b, call.value(x)
    axis = numbers(axis)[0] % len(x.shape)
    op = call.node_of_model.op.lower()
    backward = call.attr("reverse", 0)
    if backward:
        x = b.flip(x, [axis])
    out = b.make(op, [x], ints=[axis])
    if call.attr("exclusive", 0):
        low = [0] * len(x.shape)
        low[axis] = 1
        out = b.pad(out, low, x.shape, 0 if op == "cumsum" else 1)
    return b.flip(out, [axis]) if backward else out


@operator("Einsum")
def einsum(call, *operands):
    return np.einsum(call.attr("equation"), *[call.lift(x) for x in operands])


@operator("LpNormalization")
def lp_normalization(call, x):
    b, x = call.b, call.value(x)
    axis, p = call.axis(len(x.shape), -1), call.attr("p", 2)
    wide = b.wide(x)
    norm = b.reduce("sum", b.ew("abs", wide) if p == 1 else b.mul(wide, wide), [axis], True)
    norm = norm if p == 1 else b.ew("sqrt", norm)
    out = b.where(b.eq(norm, 0), b.number(wide.dtype, 0), b.div(wide, norm))
    return b.cast(out, x.dtype)
