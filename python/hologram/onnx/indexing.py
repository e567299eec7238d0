# hologram/onnx/indexing.py: gathering and scattering by indices
# mypy: ignore-errors
import numpy as np

from hologram._graph import numel
from hologram.onnx.call import is_known, is_native, is_sizes, numbers, plain
from hologram.onnx.table import operator


@operator("Gather", sizes=True)
def gather(call, x, indices):
    axis = call.axis(len(x.shape))
    if is_sizes(indices):
        indices = call.lift(indices)
    if is_known(x) and is_known(indices):
        return np.take(x, indices, axis)
    if is_known(indices) and indices.size == 1 and not is_known(x):
        return _one(x, indices, axis)
    x, indices = call.lift(x), call.lift(indices)
    if is_native(x, indices):
        return call.b.take(x.value, call.b.cast(indices.value, "i64"), axis)
    return np.take(x, indices, axis)


def _one(x, indices, axis):
    """A place that is known: a part of the operand."""
    at = int(indices.reshape(-1)[0])
    part = x[(slice(None),) * axis + (at,)]
    shape = list(x.shape)
    return part.reshape([*shape[:axis], *indices.shape, *shape[axis + 1 :]])


@operator("GatherElements")
def gather_elements(call, x, indices):
    b = call.b
    x, at, axis = *_along(call, x, indices), call.axis(len(x.shape))
    flat = _flat_places(b, x.shape, at, axis)
    return b.reshape(b.take(b.flatten(x), flat, 0), at.shape)


def _along(call, x, indices):
    x, at = call.value(x), call.value(indices)
    return x, call.b.cast(at, "i64")


def from_zero(b, at, n):
    """Places from the front, for those that count from the end."""
    return b.where(b.lt(at, 0), b.ew("add", at, b.scalar(n, "i64")), at)


def _flat_places(b, shape, at, axis):
    """Row-major places in `shape` of elements at `at` along an axis and at their own places along the others."""
    total = None
    for a, n in enumerate(shape):
        here = from_zero(b, at, n) if a == axis else b.iota("i64", [m if i == a else 1 for i, m in enumerate(at.shape)], a)
        total = here if total is None else b.ew("add", b.mul(total, b.scalar(n, "i64")), here)
    return total


@operator("GatherND")
def gather_nd(call, x, indices):
    b = call.b
    batch = call.attr("batch_dims", 0)
    x, at = call.value(x), b.cast(call.value(indices), "i64")
    depth = at.shape[-1]
    lead, rest = at.shape[:-1], x.shape[batch + depth :]
    flat = None
    for a in range(batch + depth):
        if a < batch:
            here = b.iota("i64", [m if i == a else 1 for i, m in enumerate(lead)], a)
        else:
            here = from_zero(b, b.select_axis(at, len(lead), a - batch), x.shape[a])
        flat = here if flat is None else b.ew("add", b.mul(flat, b.scalar(x.shape[a], "i64")), here)
    table = b.reshape(x, [numel(x.shape[: batch + depth]), *rest])
    return b.take(table, b.broadcast(flat, lead), 0)


@operator("Scatter", "ScatterElements")
def scatter_elements(call, x, indices, updates):
    b = call.b
    axis, mode = call.axis(len(x.shape)), call.attr("reduction", "none")
    x, at = _along(call, x, indices)
    updates = call.value(updates)
    flat = b.broadcast(_flat_places(b, x.shape, at, axis), at.shape)
    out = _scatter(b, b.flatten(x), b.flatten(flat), b.flatten(updates), mode)
    return b.reshape(out, x.shape)


def _scatter(b, x, at, updates, mode):
    """Along axis 0. Extremes of floats and truth values as the graph has them."""
    kind = x.dtype
    if kind == "b8":
        x, updates = b.cast(x, "u8"), b.cast(updates, "u8")
    out = b.scatter(x, at, updates, 0, {"none": "set"}.get(mode, mode))
    return b.cast(out, kind)


@operator("ScatterND")
def scatter_nd(call, x, indices, updates):
    b = call.b
    x, at, updates = call.value(x), b.cast(call.value(indices), "i64"), call.value(updates)
    depth = at.shape[-1]
    lead, rest = at.shape[:-1], x.shape[depth:]
    flat = None
    for a in range(depth):
        here = from_zero(b, b.select_axis(at, len(lead), a), x.shape[a])
        flat = here if flat is None else b.ew("add", b.mul(flat, b.scalar(x.shape[a], "i64")), here)
    table = b.reshape(x, [numel(x.shape[:depth]), *rest])
    flat = b.reshape(flat, [numel(lead)])
    updates = b.reshape(updates, [numel(lead), *rest])
    return b.reshape(_scatter(b, table, flat, updates, call.attr("reduction", "none")), x.shape)


@operator("TensorScatter")
def tensor_scatter(call, past, update, start=None):
    """Writes a part of a sequence into a cache, for each of a batch at its own place, or around its end."""
    b = call.b
    past, update = call.values(past, update)
    axis = call.axis(len(past.shape), -2)
    n, count = past.shape[axis], update.shape[axis]
    batch = past.shape[0]
    start = b.number("i64", 0, [batch]) if start is None else b.cast(call.value(start), "i64")
    at = b.ew("add", b.reshape(start, [batch, 1]), b.iota("i64", [1, count], 1))
    if call.attr("mode", "linear") == "circular":
        at = b.ew("rem", at, b.scalar(n, "i64"))
    order = [0, axis, *(i for i in range(1, len(past.shape)) if i != axis)]
    back = [order.index(i) for i in range(len(order))]
    moved = b.scatter(b.permute(past, order), at, b.permute(update, order), 1, "set", batch=1)
    return b.permute(moved, back)


@operator("OneHot", known=(1,))
def one_hot(call, indices, depth, values):
    b = call.b
    at = call.value(indices)
    n = numbers(depth)[0] if depth.dtype.kind != "f" else int(depth.item())
    axis = call.attr("axis", -1) % (len(at.shape) + 1)
    at = b.cast(at, "i64")
    at = b.unsqueeze(from_zero(b, at, n), axis)
    shape = [*at.shape[:axis], n, *at.shape[axis + 1 :]]
    values = call.value(values)
    off, on = (b.reshape(b.slice(values, [i], [1]), []) for i in range(2))
    hit = b.ew("eq", b.broadcast(at, shape), b.iota("i64", plain(shape), axis))
    return b.where(hit, on, off)


@operator("ReverseSequence")
def reverse_sequence(call, x, lengths):
    b = call.b
    x, lengths = call.value(x), b.cast(call.value(lengths), "i64")
    time, batch = call.attr("time_axis", 0), call.attr("batch_axis", 1)
    rank = len(x.shape)
    lengths = b.reshape(lengths, [x.shape[batch] if i == batch else 1 for i in range(rank)])
    line = b.iota("i64", [x.shape[time] if i == time else 1 for i in range(rank)], time)
    at = b.where(b.ew("lt", line, lengths), b.ew("sub", b.sub(lengths, 1), line), line)
    flat = _flat_places(b, x.shape, b.broadcast(at, x.shape), time)
    return b.reshape(b.take(b.flatten(x), flat, 0), x.shape)


# --- sizes that depend on values: NumPy's, between graphs


@operator("NonZero", host=True)
def non_zero(call, x):
    return np.array(np.nonzero(x) if x.ndim else [np.arange(int(bool(x)))] * 0 or np.nonzero(np.atleast_1d(x)), np.int64)


@operator("Compress", host=True)
def compress(call, x, condition):
    return np.compress(condition, x, call.attr("axis"))


@operator("Unique", host=True)
def unique(call, x):
    axis = call.attr("axis")
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not call.attr("sorted", 1):
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        inverse = np.argsort(order)[inverse]
        first, counts = first[order], counts[order]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


@operator("NonMaxSuppression", host=True)
def non_max_suppression(call, boxes, scores, most=None, overlap=None, least=None):
    most = 0 if most is None else int(most.item())
    overlap = 0.0 if overlap is None else float(overlap.item())
    center = call.attr("center_point_box", 0)
    found = []
    for batch in range(scores.shape[0]):
        corners = _corners(boxes[batch].astype(np.float32), center)
        for kind in range(scores.shape[1]):
            score = scores[batch, kind]
            order = np.argsort(-score, kind="stable")
            if least is not None:
                order = order[score[order] > least.item()]
            kept = []
            for i in order:
                if len(kept) >= most:
                    break
                if all(_overlap(corners[i], corners[j]) <= overlap for j in kept):
                    kept.append(i)
                    found.append((batch, kind, i))
    return np.array(found, np.int64).reshape(-1, 3)


def _corners(boxes, center):
    if center:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high], 1)


def _overlap(a, b):
    height, width = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if height <= 0 or width <= 0:
        return 0.0
    both = height * width
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)

