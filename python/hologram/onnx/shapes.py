# hologram/onnx/shapes.py: sizes, and operators that move elements
# mypy: ignore-errors
import contextlib

import numpy as np

from hologram._graph import numel
from hologram.onnx import tensors
from hologram.onnx.call import Array, Dim, TraceError, is_known, is_native, is_sizes, numbers, plain, settled
from hologram.onnx.call import reshape as reshape_natively
from hologram.onnx.call import transpose as transpose_natively
from hologram.onnx.table import operator

LARGE = 1 << 10  # elements of a constant that the graph makes itself


@operator("Constant")
def constant(call):
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64), ("value_ints", np.int64)):
        if call.attr(name) is not None:
            return np.asarray(call.attr(name), dtype)
    value = call.attr("value")
    if value is None:
        raise NotImplementedError(f"from_onnx: {call.node_of_model}: a constant of this kind is not supported")
    return value


def sizes_array(sizes):
    """Sizes as an operand: integers, or an array of objects where some are open."""
    out = np.empty(len(sizes), object)
    out[:] = sizes
    return settled(out)


@operator("Shape", sizes=True)
def shape(call, x):
    sizes = list(np.shape(x)) if is_known(x) else list(x.shape)
    return sizes_array(sizes[slice(call.attr("start", 0), call.attr("end", None))])


@operator("Size", sizes=True)
def size(call, x):
    return settled(np.asarray(numel(list(x.shape)), dtype=None if all(isinstance(n, int) for n in x.shape) else object))


def _reshaped(call, x, wanted):
    if is_known(x):
        return x.reshape([int(n) for n in wanted])
    if is_native(x):
        with contextlib.suppress(TraceError):
            return reshape_natively(x, wanted)
    return x.reshape(wanted)


@operator("Reshape", known=(1,), sizes=True)
def reshape(call, x, wanted=None):
    sizes = call.ints(wanted, "shape")
    if not call.attr("allowzero", 0):
        sizes = [x.shape[i] if isinstance(n, int) and n == 0 else n for i, n in enumerate(sizes)]
    if -1 in [n for n in sizes if isinstance(n, int)] and not is_known(x) and any(isinstance(n, int) and n == 0 for n in x.shape):
        rest = numel([n for n in sizes if not (isinstance(n, int) and n == -1)])
        sizes = [(0 if isinstance(rest, int) and rest == 0 else numel(x.shape) // rest) if n == -1 else n for n in sizes]
    return _reshaped(call, x, sizes)


@operator("Flatten", sizes=True)
def flatten(call, x):
    rank = len(x.shape)
    axis = call.attr("axis", 1)
    axis = axis + rank if axis < 0 else axis
    return _reshaped(call, x, [numel(x.shape[:axis]), numel(x.shape[axis:])])


@operator("Squeeze", known=(1,), sizes=True)
def squeeze(call, x, axes=None):
    axes = call.ints(axes, "axes")
    rank = len(x.shape)
    if axes is None:
        gone = [i for i, n in enumerate(x.shape) if n == 1]
    else:
        gone = [int(a) % rank for a in axes]
    return _reshaped(call, x, [n for i, n in enumerate(x.shape) if i not in gone])


@operator("Unsqueeze", known=(1,), sizes=True)
def unsqueeze(call, x, axes=None):
    axes = call.ints(axes, "axes")
    rank = len(x.shape) + len(axes)
    at, rest = {int(a) % rank for a in axes}, list(x.shape)
    return _reshaped(call, x, [1 if i in at else rest.pop(0) for i in range(rank)])


@operator("Transpose", sizes=True)
def transpose(call, x):
    order = call.attr("perm") or list(range(len(x.shape)))[::-1]
    return transpose_natively(x, order) if is_native(x) else x.transpose(order)


@operator("Concat", sizes=True)
def concat(call, *operands):
    if all(map(is_known, operands)):
        return np.concatenate(operands, call.attr("axis"))
    return np.concatenate([call.lift(x) for x in operands], call.attr("axis"))


@operator("Split", known=(1,), sizes=True)
def split(call, x, parts=None):
    axis = call.axis(len(x.shape))
    sizes = call.ints(parts, "split")
    if sizes is None:
        count = call.attr("num_outputs", len(call.outputs))
        n = x.shape[axis]
        each = (n + count - 1) // count
        sizes = [each] * (count - 1) + [n - each * (count - 1)]
    out, start = [], 0
    for n in sizes:
        out.append(x[(slice(None),) * axis + (slice(start, start + n),)])
        start = start + n
    return tuple(out)


@operator("Slice", known=(1, 2, 3, 4), sizes=True)
def slice_(call, x, starts=None, ends=None, axes=None, steps=None):
    starts, ends = call.ints(starts, "starts"), call.ints(ends, "ends")
    axes = call.ints(axes, "axes") or range(len(starts))
    steps = numbers(steps) if steps is not None else [1] * len(starts)
    rank = len(x.shape)
    key = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps):
        key[int(axis) % rank] = _bounds(x.shape[int(axis) % rank], start, end, int(step))
    return x[tuple(key)]


def _bounds(n, start, end, step):
    """A slice of n elements by the standard's bounds, of which far ones mean the ends."""
    far = 1 << 31
    if isinstance(n, int) and not isinstance(start, Dim) and not isinstance(end, Dim):
        if step < 0:
            start = n - 1 if start >= n else max(start + n, -1) if start < 0 else start
            end = max(end + n, -1) if end < 0 else min(end, n - 1)
            return slice(start, None if end < 0 else end, step) if start >= 0 else slice(0, 0)
        return slice(start, end, step)
    if step < 0:
        whole = isinstance(start, int) and (start == -1 or start >= far - 1) and isinstance(end, int) and end <= -far + 1
        if not whole:
            return _bounds(int(n), int(start), int(end), step)
        return slice(None, None, step)
    start = None if isinstance(start, int) and start == 0 else start
    end = None if isinstance(end, int) and end >= far - 1 else end
    return slice(start, end, step)


@operator("Expand", known=(1,), sizes=False)
def expand(call, x, wanted):
    x = call.lift(x)
    sizes = numbers(wanted)
    lead = [1] * max(0, len(sizes) - len(x.shape))
    have = [*lead, *x.shape]
    sizes = [1] * (len(have) - len(sizes)) + sizes
    sizes = [m if isinstance(n, int) and n == 1 else n for n, m in zip(have, sizes)]
    return np.broadcast_to(x, sizes)


@operator("Tile", known=(1,))
def tile(call, x, repeats):
    b, x = call.b, call.lift(x)
    counts, shape = numbers(repeats), list(x.shape)
    if all(isinstance(n, int) and n == 1 for n in counts):
        return x
    node = b.reshape(x.value, [m for n in shape for m in (1, n)])
    node = b.broadcast(node, [m for n, count in zip(shape, counts) for m in (count, n)])
    return b.reshape(node, [n * count for n, count in zip(shape, counts)])


@operator("ConstantOfShape", known=(0,), fold=False, sizes=True)
def constant_of_shape(call, wanted):
    value = call.attr("value", np.zeros(1, np.float32)).reshape(())
    sizes = numbers(wanted)
    if all(isinstance(n, int) for n in sizes) and numel(sizes) <= LARGE:
        return np.full(sizes, value)
    return np.broadcast_to(call.lift(call.tracer.constant(value)), sizes)


@operator("Range", known=(0, 1, 2), sizes=True)
def range_(call, start, limit, delta):
    if not any(map(is_sizes, (start, limit, delta))):
        return np.arange(start.item(), limit.item(), delta.item(), start.dtype if not is_sizes(start) else np.int64)
    start, limit, delta = (numbers(x)[0] for x in (start, limit, delta))
    delta = int(delta)
    count = (limit - start + (delta - 1)) // delta if delta > 0 else (start - limit + (-delta - 1)) // -delta
    line = Array(call.tracer, call.b.iota("i64", plain([count]), 0))
    line = line if delta == 1 else line * delta
    if isinstance(start, int):
        return line + start if start else line
    return line + call.tracer.size_value(start.expr)


@operator("EyeLike")
def eye_like(call, x):
    dtype = tensors.dtype_of(call.attr("dtype")) if call.attr("dtype") else x.dtype
    rows, columns = x.shape
    b = call.b
    off = b.sub(b.iota("i64", plain([1, columns]), 1), b.iota("i64", plain([rows, 1]), 0))
    return call.lift(b.eq(off, call.attr("k", 0))).astype(dtype)


@operator("Trilu", known=(1,))
def trilu(call, x, k=None):
    b, x = call.b, call.value(x)
    k = 0 if k is None else numbers(k)[0]
    rows, columns = x.shape[-2:]
    off = b.sub(b.iota("i64", [1, columns], 1), b.iota("i64", [rows, 1], 0))
    keep = b.le(b.number("i64", k), off) if call.attr("upper", 1) else b.le(off, k)
    keep = b.broadcast(b.reshape(keep, [1] * (len(x.shape) - 2) + [rows, columns]), x.shape)
    return b.where(keep, x, b.number(x.dtype, 0, x.shape))


@operator("DepthToSpace")
def depth_to_space(call, x):
    b, x = call.b, call.value(x)
    n, c, h, w = x.shape
    s = call.attr("blocksize")
    if call.attr("mode", "DCR") == "DCR":
        x = b.permute(b.reshape(x, [n, s, s, c // (s * s), h, w]), [0, 3, 4, 1, 5, 2])
    else:
        x = b.permute(b.reshape(x, [n, c // (s * s), s, s, h, w]), [0, 1, 4, 2, 5, 3])
    return b.reshape(x, [n, c // (s * s), h * s, w * s])


@operator("SpaceToDepth")
def space_to_depth(call, x):
    b, x = call.b, call.value(x)
    n, c, h, w = x.shape
    s = call.attr("blocksize")
    mode = call.attr("mode", "DCR")
    x = b.reshape(x, [n, c, h // s, s, w // s, s])
    x = b.permute(x, [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4])
    return b.reshape(x, [n, c * s * s, h // s, w // s])


@operator("Pad", known=(1, 3))
def pad(call, x, pads=None, value=None, axes=None):
    x = call.lift(x)
    rank = len(x.shape)
    pads = call.ints(pads, "pads")
    at = [int(a) % rank for a in numbers(axes)] if axes is not None else list(range(rank))
    low, high = [0] * rank, [0] * rank
    for i, axis in enumerate(at):
        low[axis], high[axis] = pads[i], pads[i + len(at)]
    mode = call.attr("mode", "constant")
    if mode == "constant":
        return _pad_constant(call, x, low, high, call.attr("value", 0.0) if value is None else value)
    for axis in range(rank):
        if not (isinstance(low[axis], int) and isinstance(high[axis], int) and low[axis] == high[axis] == 0):
            x = np.take(x, _edge_places(call, x.shape[axis], low[axis], high[axis], mode), axis)
    return x


def _pad_constant(call, x, low, high, value):
    b = call.b
    shape = [n + a + z for n, a, z in zip(x.shape, low, high)]
    if isinstance(value, np.ndarray):
        value = value.item()
    if not isinstance(value, Array):
        return b.pad(x.value, low, shape, value)
    inside = b.pad(b.number("u8", 1, x.shape), low, shape, 0)
    filled = b.broadcast(b.reshape(value.value, [1] * len(shape)), shape)
    return b.where(b.ne(inside, 0), b.pad(x.value, low, shape, 0), filled)


def _edge_places(call, n, low, high, mode):
    if all(isinstance(v, int) for v in (n, low, high)):
        at = np.arange(-low, n + high)
        if mode == "edge":
            return np.clip(at, 0, n - 1)
        if mode == "wrap":
            return at % n
        turn = max(2 * (n - 1), 1)
        at = np.abs(at) % turn
        return np.where(at >= n, turn - at, at)
    b = call.b
    at = call.lift(b.iota("i64", plain([n + low + high]), 0)) - low
    last = n - 1
    if mode == "edge":
        return np.clip(at, 0, call.tracer.size_value(last.expr) if isinstance(last, Dim) else last)
    if mode == "wrap":
        return at % call.tracer.size_value(n.expr)
    at = np.abs(at)
    last = call.tracer.size_value(last.expr)
    return last - np.abs(last - at)


@operator("CenterCropPad", known=(1,))
def center_crop_pad(call, x, wanted):
    x = call.lift(x)
    rank = len(x.shape)
    axes = [a % rank for a in call.attr("axes", list(range(rank)))]
    key, low, high = [slice(None)] * rank, [0] * rank, [0] * rank
    for axis, want in zip(axes, numbers(wanted)):
        have = x.shape[axis]
        if want < have:
            start = (have - want) // 2
            key[axis] = slice(start, start + want)
        else:
            low[axis] = (want - have) // 2
            high[axis] = want - have - low[axis]
    return _pad_constant(call, x[tuple(key)], low, high, 0)
