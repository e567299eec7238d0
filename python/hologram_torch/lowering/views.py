# hologram_torch/lowering/views.py: views and other movement
from ..graph.symbols import hint
from . import Unsupported, lower


MOST_STEPS = 8  # of a window, as parts of a concatenation


def axis_of(axis, rank):
    return axis + rank if axis < 0 else axis


@lower("view.default", "_unsafe_view.default", "reshape.default", "_reshape_alias.default", "view_copy.default",
       "flatten.using_ints", "unflatten.int", "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
       "unsqueeze_copy.default", "squeeze_copy.default", "squeeze_copy.dim", "_reshape_copy.default",
       "reshape_as.default", "view_as.default", "ravel.default", "squeeze_copy.dims")  # fmt: skip
def view(c, x, *_, **__):
    return c.reshape(x, c.out_shape)


@lower("expand.default", "expand_copy.default", "expand_as.default", "broadcast_to.default")
def expand(c, x, *_, **__):
    return c.broadcast(x, c.out_shape)


@lower("permute.default", "permute_copy.default")
def permute(c, x, dims):
    rank = len(x.shape)
    return c.permute(x, [axis_of(d, rank) for d in dims])


@lower("transpose.int", "transpose_copy.int", "swapaxes.default")
def transpose(c, x, a, b):
    rank = len(x.shape)
    return c.transpose(x, axis_of(a, rank), axis_of(b, rank)) if rank else x


@lower("t.default", "t_copy.default", "numpy_T.default")
def t(c, x):
    return c.permute(x, list(range(len(x.shape)))[::-1])


def _bounds(c, start, end, length):
    """Python's normalisation of a slice's start, decided by the example sizes as tracing did."""
    size = c.hint(length)
    start = 0 if start is None else start
    if c.hint(start) < 0:
        start = start + length
    if c.hint(start) < 0:
        start = 0
    return length if c.hint(start) > size else start


@lower("slice.Tensor", "slice_copy.Tensor")
def slice_(c, x, dim=0, start=None, end=None, step=1):
    shape = x.shape
    dim = axis_of(dim, len(shape))
    first = _bounds(c, start, end, shape[dim])
    return c.slice_axis(x, dim, first, c.out_shape[dim], step)


@lower("narrow.default", "narrow_copy.default")
def narrow(c, x, dim, start, length):
    dim = axis_of(dim, len(x.shape))
    return c.slice_axis(x, dim, _bounds(c, start, None, x.shape[dim]), length)


@lower("select.int", "select_copy.int")
def select(c, x, dim, index):
    dim = axis_of(dim, len(x.shape))
    return c.select_axis(x, dim, index + x.shape[dim] if c.hint(index) < 0 else index)


@lower("split.Tensor", "split_with_sizes.default", "split_with_sizes_copy.default", "split_copy.Tensor",
       "chunk.default", "unsafe_split.Tensor", "unsafe_split_with_sizes.default", "unsafe_chunk.default")  # fmt: skip
def split(c, x, _, dim=0):
    dim = axis_of(dim, len(x.shape))
    out, at = [], 0
    for part in c.out_shapes:
        out.append(c.slice_axis(x, dim, at, part[dim]))
        at = part[dim] + at
    return tuple(out)


@lower("unbind.int", "unbind_copy.int")
def unbind(c, x, dim=0):
    dim = axis_of(dim, len(x.shape))
    return tuple(c.select_axis(x, dim, i) for i in range(len(c.out_shapes)))


@lower("cat.default", "concat.default", "concatenate.default")
def cat(c, xs, dim=0):
    out = c.out_shape
    dim = axis_of(dim, len(out))
    parts = [x for x in xs if not (len(x.shape) == 1 and x.shape[0] == 0 and len(out) != 1)]
    parts = [x for x in parts if x.shape[dim] != 0] or parts[:1]
    if not parts:
        return c.number(c.out_dtype, 0, out)
    return c.concat([c.cast(x, c.out_dtype) for x in parts], dim)


@lower("stack.default")
def stack(c, xs, dim=0):
    dim = axis_of(dim, len(c.out_shape))
    return c.concat([c.unsqueeze(c.cast(x, c.out_dtype), dim) for x in xs], dim)


@lower("flip.default")
def flip(c, x, dims):
    return c.flip(x, [axis_of(d, len(x.shape)) for d in dims]) if x.shape else x


@lower("roll.default")
def roll(c, x, shifts, dims=()):
    shape = x.shape
    if not dims:
        return c.reshape(_roll(c, c.flatten(x), shifts[0], 0), shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _roll(c, x, shift, axis_of(dim, len(shape)))
    return x


def _roll(c, x, shift, dim):
    n = x.shape[dim]
    if type(n) is not int or type(shift) is not int:
        raise Unsupported("symbolic roll")
    shift = shift % n if n else 0
    if shift == 0:
        return x
    return c.concat([c.slice_axis(x, dim, n - shift, shift), c.slice_axis(x, dim, 0, n - shift)], dim)


@lower("repeat.default", "tile.default")
def repeat(c, x, counts):
    shape = list(x.shape)
    shape = [1] * (len(counts) - len(shape)) + shape
    split_shape, wide = [], []
    for n, k in zip(shape, counts, strict=True):
        split_shape += [1, n]
        wide += [k, n]
    return c.reshape(c.broadcast(c.reshape(x, split_shape), wide), c.out_shape)


@lower("diagonal.default", "diagonal_copy.default")
def diagonal(c, x, offset=0, dim1=0, dim2=1):
    rank = len(x.shape)
    dim1, dim2 = axis_of(dim1, rank), axis_of(dim2, rank)
    rest = [i for i in range(rank) if i not in (dim1, dim2)]
    x = c.permute(x, [*rest, dim1, dim2])
    *lead, rows, columns = x.shape
    n = c.out_shape[-1]
    if type(n) is int and n == 0:
        return c.number(x.dtype, 0, c.out_shape)
    x = c.slice(x, [0] * len(lead) + [max(-offset, 0), max(offset, 0)], [*lead, n, n])
    # Element (i, i) of an n × n matrix is number i * (n + 1) of its elements.
    flat = c.reshape(x, [*lead, n * n])
    if type(n) is not int:
        raise Unsupported("symbolic diagonal")
    return c.slice(flat, [0] * (len(lead) + 1), [*lead, n], [1] * len(lead) + [n + 1])


def _windows(c, x, dim, windows, size, step):
    """Windows of an axis, as many elements of each as a step has at a time: these lie as the axis does."""

    def part(first):
        lead, rest = x.shape[:dim], x.shape[dim + 1 :]
        return c.reshape(c.slice_axis(x, dim, first, windows * step), [*lead, windows, step, *rest])

    parts = [part(first) for first in range(0, size - step + 1, step)]
    if left := size % step:
        parts.append(c.slice_axis(part(size - step), dim + 1, step - left, left))
    return c.concat(parts, dim + 1)


@lower("unfold.default", "unfold_copy.default")
def unfold(c, x, dimension, size, step):
    shape = x.shape
    if not shape:
        return c.reshape(x, c.out_shape)
    dim = axis_of(dimension, len(shape))
    windows = c.out_shape[dim]
    if all(type(n) is int for n in (windows, size, step)) and step <= size <= MOST_STEPS * step:
        x = _windows(c, x, dim, windows, size, step)
    else:
        start = c.mul(c.iota("i64", [windows, size], 0), step)
        x = c.take(x, c.add(start, c.iota("i64", [windows, size], 1)), dim)
    rank = len(shape) + 1
    axes = [i for i in range(rank) if i != dim + 1] + [dim + 1]
    return c.permute(x, axes)


def storage_order(c, x, fake):
    """x as one row in the order of its storage; needs a storage without gaps or overlaps."""
    shape, strides = list(fake.shape), list(fake.stride())
    order = sorted(range(len(shape)), key=lambda i: (-hint(strides[i]), hint(shape[i]) != 1))
    expected = 1
    for i in reversed(order):
        if hint(shape[i]) == 1:
            continue
        if hint(strides[i]) != expected:
            raise Unsupported("storage with gaps")
        expected *= hint(shape[i])
    return c.flatten(c.permute(x, order)), order


def strided_positions(c, sizes, strides, offset):
    at = c.size_value(offset)
    for i, stride in enumerate(strides):
        if sizes[i] != 1:
            at = c.add(at, c.mul(c.iota("i64", sizes, i), c.scalar(stride, "i64")))
    return c.broadcast(at, sizes)


@lower("as_strided.default", "as_strided_copy.default")
def as_strided(c, x, size, stride, storage_offset=None):
    fake = c.fake(0)
    base = c.size(fake.storage_offset())
    offset = (base if storage_offset is None else storage_offset) - base
    flat, _ = storage_order(c, x, fake)
    last = c.hint(offset) + sum((c.hint(n) - 1) * c.hint(s) for n, s in zip(size, stride, strict=True))
    if c.hint(offset) < 0 or last >= c.hint(flat.shape[0]) and 0 not in size:
        raise Unsupported("storage beyond the tensor")
    return c.take(flat, strided_positions(c, size, stride, offset), 0)


@lower("as_strided_scatter.default")
def as_strided_scatter(c, x, source, size, stride, storage_offset=None):
    fake = c.fake(0)
    if storage_offset is None or c.size(fake.storage_offset()) != 0:
        storage_offset = storage_offset or 0
    flat, order = storage_order(c, x, fake)
    at = c.flatten(strided_positions(c, size, stride, storage_offset))
    flat = c.scatter(flat, at, c.flatten(source), 0)
    shape = x.shape
    inverse = [order.index(i) for i in range(len(order))]
    return c.permute(c.reshape(flat, [shape[i] for i in order]), inverse)


# --- writing into a part
def _check_size(source, part):
    """Tracing does not compare what is written with the part that it is written to."""
    if all(type(n) is int for n in (*source.shape, *part)) and source.shape != part:
        raise Unsupported("a source that is not of the part's size")


@lower("select_scatter.default")
def select_scatter(c, x, source, dim, index):
    shape = x.shape
    dim = axis_of(dim, len(shape))
    _check_size(source, [*shape[:dim], *shape[dim + 1 :]])
    if c.hint(index) < 0:
        index = index + shape[dim]
    if type(index) is int and type(shape[dim]) is int and not 0 <= index < shape[dim]:
        raise Unsupported("an index out of range")
    here = c.eq(c.iota("i64", shape, dim), c.scalar(index, "i64"))
    return c.where(here, c.unsqueeze(source, dim), x)


@lower("slice_scatter.default")
def slice_scatter(c, x, source, dim=0, start=None, end=None, step=1):
    shape = x.shape
    dim = axis_of(dim, len(shape))
    first = _bounds(c, start, end, shape[dim])
    count = source.shape[dim]
    if all(type(n) is int or n is None for n in (start, end, shape[dim])):
        _check_size(source, [*shape[:dim], len(range(*slice(start, end, step).indices(shape[dim]))), *shape[dim + 1 :]])
    source = c.cast(source, x.dtype)
    if step == 1:
        if type(first) is int and first == 0 and c.same_size(count, shape[dim]):
            return source
        low = [0] * len(shape)
        low[dim] = first
        spread = c.pad(source, low, shape, 0)
        at = c.iota("i64", shape, dim)
        inside = c.both(c.le(c.scalar(first, "i64"), at), c.lt(at, c.scalar(first + count, "i64")))
        return c.where(inside, spread, x)
    at = c.add(c.mul(c.iota("i64", [count], 0), c.scalar(step, "i64")), c.scalar(first, "i64"))
    return c.scatter(x, at, source, dim)


@lower("diagonal_scatter.default")
def diagonal_scatter(c, x, source, offset=0, dim1=0, dim2=1):
    rank = len(x.shape)
    dim1, dim2 = axis_of(dim1, rank), axis_of(dim2, rank)
    rest = [i for i in range(rank) if i not in (dim1, dim2)]
    order = [*rest, dim1, dim2]
    moved = c.permute(x, order)
    *lead, rows, columns = moved.shape
    n = source.shape[-1]
    if all(type(m) is int for m in (rows, columns)):
        _check_size(source, [*lead, min(rows + min(offset, 0), columns - max(offset, 0))])
    last = len(lead)
    spread = c.pad(c.cast(source, x.dtype), [0] * last + [max(-offset, 0)], [*lead, rows], 0)
    row, column = (c.iota("i64", moved.shape, axis) for axis in (last, last + 1))
    here = c.eq(c.add(row, c.number("i64", offset)), column)
    inverse = [order.index(i) for i in range(rank)]
    return c.permute(c.where(here, c.unsqueeze(spread, last + 1), moved), inverse)


@lower("tril_indices.default", "triu_indices.default")
def triangle_indices(c, *_, **__):
    raise Unsupported("left to PyTorch")


@lower("pixel_shuffle.default")
def pixel_shuffle(c, x, upscale_factor):
    r = upscale_factor
    *lead, channels, height, width = x.shape
    k, n = channels // (r * r), len(lead)
    x = c.reshape(x, [*lead, k, r, r, height, width])
    x = c.permute(x, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return c.reshape(x, c.out_shape)


@lower("pixel_unshuffle.default")
def pixel_unshuffle(c, x, downscale_factor):
    r = downscale_factor
    *lead, channels, height, width = x.shape
    n = len(lead)
    x = c.reshape(x, [*lead, channels, height // r, r, width // r, r])
    x = c.permute(x, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return c.reshape(x, c.out_shape)
