# hologram_torch/lowering/indexing.py: gathers and scatters
import math

from ..graph import dtypes
from ..graph.builder import contiguous_strides, numel
from . import Unsupported, lower
from .views import axis_of


_FAR = 1 << 62  # out of range for every axis


def from_zero(c, index):
    """The index where nothing counts from the end: a negative one becomes one that is out of range."""
    index = c.cast(index, "i64")
    return c.where(c.lt(index, c.number("i64", 0)), c.number("i64", _FAR), index)


def take(c, x, index, axis, batch=0):
    """c.take that never reads an axis without elements: there every index is out of range."""
    if x.shape[axis] != 0:
        return c.take(x, index, axis, batch)
    shape = list(x.shape)
    if c.hint(numel(shape[:axis] + list(index.shape) + shape[axis + 1 :])) == 0:
        return c.number(x.dtype, 0, shape[:axis] + list(index.shape) + shape[axis + 1 :])
    shape[axis] = 1
    far = c.ew("bit_or", c.cast(index, "i64"), c.number("i64", _FAR))
    return c.take(c.number(x.dtype, 0, shape), c.where(c.lt(far, c.number("i64", 0)), c.number("i64", _FAR), far), axis)


@lower("embedding.default")
def embedding(c, weight, indices, *_, **__):
    return take(c, weight, from_zero(c, indices), 0)


@lower("index_select.default")
def index_select(c, x, dim, index):
    if not x.shape:
        return x
    if not index.shape:
        index = c.reshape(index, [1])
    return take(c, x, from_zero(c, index), axis_of(dim, len(x.shape)))


@lower("take.default")
def take_flat(c, x, index):
    return take(c, c.flatten(x), index, 0)


def checked(c, parts, sizes, wrap, beyond=None):
    """One position in a row-major block of `sizes` from a position per axis; where one is out of range, `beyond`
    (the block's size)."""
    at = valid = None
    strides = contiguous_strides(sizes)
    for index, size, stride in zip(parts, sizes, strides, strict=True):
        size, zero = c.scalar(size, "i64"), c.number("i64", 0)
        if wrap:
            index = c.where(c.lt(index, zero), c.add(index, size), index)
        inside = c.both(c.le(zero, index), c.lt(index, size))
        step = index if type(stride) is int and stride == 1 else c.mul(index, c.scalar(stride, "i64"))
        at = step if at is None else c.add(at, step)
        valid = inside if valid is None else c.both(valid, inside)
    return c.where(valid, at, c.scalar(numel(sizes) if beyond is None else beyond, "i64"))


def _along(c, x_shape, dim, index):
    """Row-major positions in x of the elements that index [i…] names along `dim`, the others by their own place."""
    shape = index.shape
    strides = contiguous_strides(x_shape)
    size, zero = c.scalar(x_shape[dim], "i64"), c.number("i64", 0)
    index = c.cast(index, "i64")
    inside = c.both(c.le(zero, index), c.lt(index, size))
    at = index if type(strides[dim]) is int and strides[dim] == 1 else c.mul(index, c.scalar(strides[dim], "i64"))
    for i, stride in enumerate(strides):
        if i != dim and not (type(shape[i]) is int and shape[i] == 1):
            at = c.add(at, c.mul(c.iota("i64", shape, i), c.scalar(stride, "i64")))
    return c.where(inside, at, c.scalar(numel(x_shape), "i64"))


@lower("gather.default")
def gather(c, x, dim, index, *, sparse_grad=False):
    if not x.shape or not index.shape:
        flat = c.reshape(x, [numel(x.shape)])
        return c.reshape(take(c, flat, from_zero(c, c.reshape(index, [numel(index.shape)])), 0), c.out_shape)
    dim = axis_of(dim, len(x.shape))
    if c.hint(numel(index.shape)) == 0:
        return c.number(x.dtype, 0, index.shape)
    last = len(x.shape) - 1
    x = c.slice(x, [0] * len(x.shape), [n if i == dim else m for i, (n, m) in enumerate(zip(x.shape, index.shape))])
    if rows := _of_rows(c, index, dim):
        return take(c, x, from_zero(c, rows[0]), dim, batch=rows[1])
    there, back = _to_end(len(x.shape), dim)
    out = take(c, c.permute(x, there), from_zero(c, c.permute(index, there)), last, batch=last)
    return c.permute(out, back)


def _of_rows(c, index, dim):
    """An index that is the same along all axes behind `dim` without these, and how many of its axes are the operand's; None
    for any other."""
    few = _few(c, index)
    if few is None or dim + 1 == len(index.shape):
        return None
    if any(type(n) is not int or n != 1 for n in few.shape[dim + 1 :]):
        return None
    if all(type(n) is int and n == 1 for n in few.shape[:dim]):
        return c.broadcast(c.reshape(few, [few.shape[dim]]), [index.shape[dim]]), 0
    return c.broadcast(c.reshape(few, few.shape[: dim + 1]), index.shape[: dim + 1]), dim


def _few(c, index):
    """An index without what repeats its elements, in the graph or, by a stride of 0, in an argument; None where nothing does."""
    if index.op == "expand":
        return index.inputs[0]
    if index.op != "parameter":
        return None
    steps = c.fake(2).stride()
    sizes = [1 if type(step) is int and step == 0 else n for n, step in zip(index.shape, steps, strict=True)]
    return None if sizes == list(index.shape) else c.slice(index, [0] * len(sizes), sizes)


def _to_end(rank, dim):
    """The order of axes that puts `dim` last, and the one that undoes it."""
    order = [i for i in range(rank) if i != dim] + [dim]
    return order, [order.index(i) for i in range(rank)]


# --- scatter along one axis
def _scatter(c, x, dim, index, source, mode):
    shape = x.shape
    if c.hint(numel(index.shape)) == 0:
        return x
    if not shape:
        x, index = c.reshape(x, [1]), c.reshape(index, [1])
        source = c.reshape(source, [1])
        return c.reshape(c.scatter(x, from_zero(c, index), source, 0, mode), [])
    if not index.shape:
        index = c.reshape(index, [1])
        source = c.reshape(source, [1]) if not source.shape else source
    dim = axis_of(dim, len(shape))
    source = c.slice(source, [0] * len(shape), index.shape)
    last = len(shape) - 1
    if all(c.same_size(n, index.shape[i]) for i, n in enumerate(shape) if i != dim):
        if rows := _of_rows(c, index, dim):
            return c.scatter(x, from_zero(c, rows[0]), source, dim, mode, batch=rows[1])
        there, back = _to_end(last + 1, dim)
        x, source, index = c.permute(x, there), c.permute(source, there), from_zero(c, c.permute(index, there))
        return c.permute(c.scatter(x, index, source, last, mode, batch=last), back)
    at = _along(c, shape, dim, index)
    out = c.scatter(c.flatten(x), c.flatten(at), c.flatten(source), 0, mode)
    return c.reshape(out, shape)


def _value(c, x, index, value):
    return c.broadcast(c.scalar(value, x.dtype), index.shape)


@lower("scatter.src")
def scatter_src(c, x, dim, index, src):
    return _scatter(c, x, dim, index, src, "set")


@lower("scatter.value")
def scatter_value(c, x, dim, index, value):
    return _scatter(c, x, dim, index, _value(c, x, index, value), "set")


_MODES = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _wide_scatter(c, x, dim, index, source, mode):
    """Accumulates halves in float32, as PyTorch does on the CPU, unless a place takes but one element."""
    if x.dtype == "b8":
        raise Unsupported("accumulation of truth values")
    several = index.shape and index.shape[axis_of(dim, len(index.shape))] != 1
    wide = dtypes.compute(x.dtype) if several and mode in ("add", "mul") else x.dtype
    return c.cast(_scatter(c, c.cast(x, wide), dim, index, c.cast(source, wide), mode), x.dtype)


@lower("scatter.reduce")
def scatter_with(c, x, dim, index, src, *, reduce):
    return _wide_scatter(c, x, dim, index, src, _MODES[reduce])


@lower("scatter.value_reduce")
def scatter_value_with(c, x, dim, index, value, *, reduce):
    return _wide_scatter(c, x, dim, index, _value(c, x, index, value), _MODES[reduce])


@lower("scatter_add.default")
def scatter_add(c, x, dim, index, src):
    return _wide_scatter(c, x, dim, index, src, "add")


def _identity(name, mode):
    if mode in ("add", "mul"):
        return 0 if mode == "add" else 1
    if name in dtypes.FLOATS:
        return float("-inf") if mode == "max" else float("inf")
    return dtypes.INT_RANGE[name][0 if mode == "max" else 1]


@lower("scatter_reduce.two")
def scatter_reduce(c, x, dim, index, src, reduce, *, include_self=True):
    if reduce == "mean":
        return _scatter_mean(c, x, dim, index, src, include_self)
    mode = _MODES[reduce]
    if not include_self:
        x = _scatter(c, x, dim, index, _value(c, x, index, _identity(x.dtype, mode)), "set")
    return _wide_scatter(c, x, dim, index, src, mode)


def _scatter_mean(c, x, dim, index, src, include_self):
    if x.dtype not in dtypes.FLOATS:
        raise Unsupported("integer mean")
    one, zero = c.number(x.dtype, 1, index.shape), c.number(x.dtype, 0, index.shape)
    if not include_self:
        x = _scatter(c, x, dim, index, zero, "set")
    total = _wide_scatter(c, x, dim, index, src, "add")
    count = c.number(x.dtype, 1, x.shape)
    if not include_self:
        count = _scatter(c, count, dim, index, zero, "set")
    count = c.ew("max", _wide_scatter(c, count, dim, index, one, "add"), 1)
    return c.div(total, count)


@lower("index_reduce.default")
def index_reduce(c, x, dim, index, source, reduce, *, include_self=True):
    if x.dtype == "b8":
        raise Unsupported("index_reduce of truth values")
    if not x.shape:
        return c.reshape(index_reduce(c, c.reshape(x, [1]), dim, index, source, reduce, include_self=include_self), [])
    if not index.shape:
        index = c.reshape(index, [1])
    dim = axis_of(dim, len(x.shape))
    shape = list(x.shape)
    shape[dim] = index.shape[0]
    source = c.reshape(source, [1]) if not source.shape else source
    if list(source.shape) != shape:  # which tracing lets pass
        raise Unsupported("a source of other sizes")

    def merged(x, value, mode):
        return c.scatter(x, from_zero(c, index), value, dim, mode)

    if reduce != "mean":
        mode = {"prod": "mul", "amax": "max", "amin": "min"}[reduce]
        if not include_self:
            x = merged(x, c.number(x.dtype, _identity(x.dtype, mode), shape), "set")
        return merged(x, source, mode)
    if x.dtype not in dtypes.FLOATS:
        raise Unsupported("integer mean")
    one, zero, count = c.number(x.dtype, 1, shape), c.number(x.dtype, 0, shape), c.number(x.dtype, 1, x.shape)
    if not include_self:
        x, count = merged(x, zero, "set"), merged(count, zero, "set")
    return c.div(merged(x, source, "add"), c.ew("max", merged(count, one, "add"), 1))


@lower("put.default")
def put(c, x, index, source, accumulate=False):
    if accumulate and x.dtype == "b8":
        raise Unsupported("accumulation of truth values")
    if c.hint(numel(index.shape)) == 0:
        return x
    flat = c.scatter(c.flatten(x), c.cast(c.flatten(index), "i64"), c.flatten(source), 0, "add" if accumulate else "set")
    return c.reshape(flat, x.shape)


@lower("masked_scatter.default")
def masked_scatter(c, x, mask, source):
    """The k-th place that the mask names receives element k of the source."""
    shape = c.out_shape
    mask, x = c.broadcast(mask, shape), c.broadcast(x, shape)
    if c.hint(numel(shape)) == 0:
        return x
    count = c.make("cumsum", [c.cast(c.flatten(mask), "i64")], ints=[0])
    if c.hint(numel(source.shape)) == 0:
        source, count = c.number(x.dtype, 0, [1]), c.add(count, 1)  # any place that is named is one too many
    zero = c.number("i64", 0)
    at = c.where(c.flatten(mask), c.sub(count, 1), zero)
    return c.where(mask, c.reshape(c.take(c.flatten(source), at, 0), shape), x)


# --- advanced indexing
def _arranged(c, x, indices):
    """Brings the indexed axes together. → (x with them merged, positions, first axis, order of x's axes before merging)"""
    shape = x.shape
    indices = list(indices) + [None] * (len(shape) - len(indices))
    named = [i for i, index in enumerate(indices) if index is not None]
    if any(indices[i].dtype in ("b8", "u8") for i in named):
        raise Unsupported("index by a mask")
    together = named == list(range(named[0], named[0] + len(named)))
    order = list(range(len(shape)))
    first = named[0]
    if not together:
        order = named + [i for i in order if i not in named]
        first = 0
    x = c.permute(x, order)
    if len(named) == 1:
        return x, c.cast(indices[named[0]], "i64"), first, order
    sizes = [shape[i] for i in named]
    parts = [c.cast(indices[i], "i64") for i in named]
    wide = c.broadcast_shape(*(p.shape for p in parts))
    at = checked(c, [c.broadcast(p, wide) for p in parts], sizes, wrap=True)
    moved = [shape[i] for i in order]
    x = c.reshape(x, [*moved[:first], numel(sizes), *moved[first + len(named) :]])
    return x, at, first, order


@lower("index.Tensor", "_unsafe_index.Tensor")
def index(c, x, indices):
    if all(i is None for i in indices):
        return x
    x, at, first, _ = _arranged(c, x, indices)
    return take(c, x, at, first)


def _mask_put(c, x, mask, value, accumulate):
    """x[mask] = number."""
    if numel(value.shape) != 1 or accumulate:
        raise Unsupported("several values at a mask")
    shape, masked = x.shape, mask.shape
    mask = c.reshape(mask, [*masked, *[1] * (len(shape) - len(masked))])
    return c.where(mask, c.cast(c.reshape(value, []), x.dtype), x)


@lower("index_put.default", "_unsafe_index_put.default")
def index_put(c, x, indices, values, accumulate=False):
    named = [i for i in indices if i is not None]
    if len(named) == 1 and indices[0] is not None and named[0].dtype == "b8":
        return _mask_put(c, x, named[0], values, accumulate)
    if accumulate and x.dtype == "b8":
        raise Unsupported("accumulation of truth values")
    whole = x.shape
    merged, at, first, order = _arranged(c, x, indices)
    shape = merged.shape
    wanted = [*shape[:first], *at.shape, *shape[first + 1 :]]
    updates = c.broadcast(c.cast(values, x.dtype), wanted)
    out = c.scatter(merged, at, updates, first, "add" if accumulate else "set")
    out = c.reshape(out, [whole[i] for i in order])
    return c.permute(out, [order.index(i) for i in range(len(order))])


def _index_update(c, x, dim, index, source, mode, wrap=False, update=None):
    scalar = not x.shape
    if scalar:
        x = c.reshape(x, [1])
    dim = axis_of(dim, len(x.shape))
    if not index.shape:
        index = c.reshape(index, [1])
    wanted = list(x.shape)
    wanted[dim] = index.shape[0]
    index = c.cast(index, "i64") if wrap else from_zero(c, index)
    source = c.reshape(source, wanted)
    out = update(c, x, index, source, dim) if update else c.scatter(x, index, source, dim, mode)
    return c.reshape(out, []) if scalar else out


@lower("index_copy.default")
def index_copy(c, x, dim, index, source):
    return _index_update(c, x, dim, index, source, "set")


@lower("index_add.default")
def index_add(c, x, dim, index, source, *, alpha=1):
    if x.dtype == "b8":
        raise Unsupported("accumulation of truth values")
    if alpha != 1:
        source = c.mul(source, c.scalar(alpha, source.dtype))
    elif len(x.shape) > 1 and axis_of(dim, len(x.shape)) in (0, len(x.shape) - 1):  # PyTorch's scatter_add
        return _index_update(c, x, dim, index, source, "add", update=_row_sums)
    return _index_update(c, x, dim, index, source, "add")


@lower("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(c, x, dim, index, value):
    shape = list(x.shape) or [1]
    if not index.shape:
        index = c.reshape(index, [1])
    shape[axis_of(dim, len(shape))] = index.shape[0]
    source = c.broadcast(c.scalar(value, x.dtype), shape)
    return _index_update(c, x, dim, index, source, "set", wrap=True)


@lower("embedding_dense_backward.default")
def embedding_backward(c, gradient, indices, num_weights, padding_idx, scale_grad_by_freq):
    width = gradient.shape[-1]
    count = numel(indices.shape)
    rows, at = c.reshape(gradient, [count, width]), c.reshape(indices, [count])
    if padding_idx >= 0:
        rows = c.where(c.reshape(c.eq(at, padding_idx), [count, 1]), c.number(rows.dtype, 0), rows)
    return _row_sums(c, c.number(c.out_dtype, 0, [num_weights, width]), at, rows, 0)


def _row_sums(c, x, at, rows, axis):
    """Rows along the axis, added to those of x that `at` names: of halves as sums in float32."""
    wide = dtypes.compute(x.dtype)
    rows = c.cast(rows, wide)
    if wide == x.dtype or not 0 < c.hint(at.shape[0]) < c.hint(x.shape[axis]):
        return c.cast(c.scatter(c.cast(x, wide), at, rows, axis, "add"), x.dtype)
    # The rows alone that are named, each at the last place that names it; then rounded into x.
    last = c.scatter(c.number("i64", 0, [x.shape[axis]]), at, c.iota("i64", [at.shape[0]], 0), 0, "set")
    of = c.take(last, at, 0)
    sums = c.scatter(c.cast(c.take(x, at, axis), wide), of, rows, axis, "add")
    return c.scatter(x, at, c.cast(c.take(sums, of, axis), x.dtype), axis, "set")


_LEAST_SHARED = 1 << 14  # elements from which on several parts are counted at once


@lower("histc.default")
def histc(c, x, bins=100, min=0, max=0):
    """Counts in `bins` parts of a range that is given; one that is taken from the data may be refused by its values."""
    lo, hi = float(min), float(max)
    if x.dtype not in dtypes.FLOATS or not (math.isfinite(lo) and math.isfinite(hi) and lo < hi):
        raise Unsupported("histc over the range of its operand")
    x = c.flatten(x)
    lo, hi = c.number(x.dtype, lo), c.number(x.dtype, hi)
    inside = c.both(c.le(lo, x), c.le(x, hi))
    at = c.div(c.mul(c.sub(x, lo), c.number(x.dtype, bins)), c.sub(hi, lo))
    at = c.ew("min", c.cast(c.where(inside, at, c.number(x.dtype, 0)), "i64"), c.number("i64", bins - 1))
    at = c.where(inside, at, c.number("i64", bins))  # what is counted there is left out
    n = x.shape[0]
    parts = 8 if type(n) is int and n >= _LEAST_SHARED and n % 8 == 0 else 1
    at = c.reshape(at, [parts, n if parts == 1 else n // parts])
    counts = c.number("i64", 0, [parts, bins + 1])
    counts = c.scatter(counts, at, c.number("i64", 1, at.shape), 1, "add", batch=1)
    counts = c.reduce("sum", c.slice_axis(counts, 1, 0, bins), [0])
    return c.cast(counts, x.dtype)
