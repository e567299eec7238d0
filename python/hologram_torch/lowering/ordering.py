# hologram_torch/lowering/ordering.py: sorting, order statistics, searches, running extrema
import math

from ..graph import dtypes
from ..graph.builder import numel
from . import Unsupported, lower
from .pointwise import LARGEST, compute
from .views import axis_of

LONGEST_ROW = 512  # where every pair of elements is compared
LONGEST_LINE = 1 << 24  # that a search halves
SUMMED_BLOCK = 8  # elements that logcumsumexp adds up for each of them


def _last(c, x, dim):
    """x with axis `dim` moved to the end, and the order of axes that undoes it."""
    rank = len(x.shape)
    dim = axis_of(dim, rank)
    order = [i for i in range(rank) if i != dim] + [dim]
    return c.permute(x, order), [order.index(i) for i in range(rank)]


def _row(x):
    n = x.shape[-1]
    if type(n) is not int or n > LONGEST_ROW:
        raise Unsupported("rows too long to compare all pairs")
    return n


def _rows(c, x):
    """[rows, n] and the sizes that undo it."""
    *lead, n = x.shape
    rows = 1
    for size in lead:
        rows = size * rows
    return c.reshape(x, [rows, n]), list(x.shape)


def sorted_rows(c, x, descending=False, count=None, first=0):
    """Rows in order, or `count` of each from place `first` on, and the positions that their elements had."""
    n = x.shape[-1]
    flat, shape = _rows(c, x)
    if count is not None:
        shape[-1] = count
    if c.hint(flat.shape[0]) == 0 or c.hint(n) == 0:
        return c.slice_axis(x, len(shape) - 1, 0, shape[-1]), c.number("i64", 0, shape)
    position = c.argsort(flat, 1, descending, shape[-1], first)
    return c.reshape(c.take(flat, position, 1, batch=1), shape), c.reshape(position, shape)


def _scalar_result(c, x):
    return x, c.number("i64", 0, [])


@lower("sort.default", "sort.stable")
def sort(c, x, dim=-1, descending=False, *, stable=None, **options):
    dim, descending = options.get("dim", dim), options.get("descending", descending)
    return _sort(c, x, dim, descending)


def _sort(c, x, dim, descending):
    if not x.shape:
        return _scalar_result(c, x)
    moved, back = _last(c, x, dim)
    values, positions = sorted_rows(c, moved, descending)
    return c.permute(values, back), c.permute(positions, back)


@lower("argsort.default", "argsort.stable")
def argsort(c, x, *args, dim=-1, descending=False, stable=False):
    args = list(args)
    if args and type(args[0]) is bool and len(args) == 3:  # argsort.stable takes `stable` first
        args = args[1:]
    dim, descending = (args + [dim, descending])[:2] if len(args) < 2 else args[:2]
    return _sort(c, x, dim, descending)[1]


@lower("msort.default")
def msort(c, x):
    return _sort(c, x, 0, False)[0]


@lower("topk.default")
def topk(c, x, k, dim=-1, largest=True, sorted=True):
    if not x.shape:
        return c.reshape(x, c.out_shapes[0]), c.number("i64", 0, c.out_shapes[0])
    moved, back = _last(c, x, dim)
    return tuple(c.permute(v, back) for v in sorted_rows(c, moved, largest, k))


def _at(c, x, dim, keepdim, at):
    """The element at place `at` of every sorted row, and where it was."""
    if not x.shape:
        return _scalar_result(c, x)
    moved, back = _last(c, x, dim)
    first = at if type(at) is int else 0
    picks = (c.slice_axis(v, len(back) - 1, at - first, 1) for v in sorted_rows(c, moved, count=at - first + 1, first=first))
    return tuple(c.reshape(c.permute(v, back), s) for v, s in zip(picks, c.out_shapes, strict=True))


@lower("kthvalue.default")
def kthvalue(c, x, k, dim=-1, keepdim=False):
    if x.shape:
        c.refuse_nothing([dim], k)
    return _at(c, x, dim, keepdim, k - 1)


def _middle(c, x, dim, ignore_nan):
    """Lower median of the rows along dim, kept as an axis of 1; NaN where one is, unless those are ignored."""
    moved, back = _last(c, x, dim)
    n = moved.shape[-1]
    if type(n) is not int or n == 0:
        raise Unsupported("median of nothing")
    floats, last = x.dtype in dtypes.FLOATS, len(back) - 1
    if floats and ignore_nan:
        values, positions = sorted_rows(c, moved)
        known = c.reduce("sum", c.cast(c.eq(values, values), "i64"), [last], True)
        at = c.ew("max", c.ew("shr", c.sub(known, 1), c.number("i64", 1)), 0)
        here = c.eq(c.iota("i64", values.shape, last), at)
        position = c.reduce("sum", c.where(here, positions, c.number("i64", 0)), [last], True)
    else:
        value, position = sorted_rows(c, moved, count=1, first=(n - 1) // 2)
        if not floats:
            return [c.permute(v, back) for v in (value, position)]
        unknown = c.cast(c.ne(moved, moved), "u8")
        first = c.reduce("argmax", unknown, [last], True)
        position = c.where(c.ne(c.reduce("max", unknown, [last], True), 0), first, position)
    flat, shape = _rows(c, moved)
    source = c.add(c.reshape(position, [flat.shape[0], 1]), c.mul(c.iota("i64", [flat.shape[0], 1], 0), n))
    value = c.reshape(c.take(c.flatten(flat), source, 0), [*shape[:-1], 1])
    return [c.permute(value, back), c.permute(position, back)]


def _median(ignore_nan):
    def whole(c, x):
        if not x.shape:
            return x
        return c.reshape(_middle(c, c.flatten(x), 0, ignore_nan)[0], [])

    def along(c, x, dim=-1, keepdim=False):
        if not x.shape:
            return _scalar_result(c, x)
        return tuple(c.reshape(v, s) for v, s in zip(_middle(c, x, dim, ignore_nan), c.out_shapes, strict=True))

    return whole, along


for _name, _ignore in (("median", False), ("nanmedian", True)):
    _whole, _along = _median(_ignore)
    lower(f"{_name}.default")(_whole)
    lower(f"{_name}.dim")(_along)


@lower("mode.default")
def mode(c, x, dim=-1, keepdim=False):
    """The smallest of the values that are most frequent, and the last place where it is."""
    if not x.shape:
        return _scalar_result(c, x)
    moved, back = _last(c, x, dim)
    n, last = _row(moved), len(back) - 1
    if n == 0:
        raise Unsupported("mode of nothing")
    values, positions = sorted_rows(c, moved)
    wide = [*values.shape, n]
    pairs = c.eq(c.broadcast(c.unsqueeze(values, last + 1), wide), c.broadcast(c.unsqueeze(values, last), wide))
    count = c.reduce("sum", c.cast(pairs, "i64"), [last + 1])
    count = c.ew("max", count, 1)  # a NaN equals nothing, itself included
    first = c.reduce("argmax", count, [last], True)
    at = c.sub(c.add(first, c.reduce("max", count, [last], True)), 1)
    here = c.eq(c.iota("i64", values.shape, last), at)
    position = c.reduce("sum", c.where(here, positions, c.number("i64", 0)), [last], True)
    flat, shape = _rows(c, moved)
    source = c.add(c.reshape(position, [flat.shape[0], 1]), c.mul(c.iota("i64", [flat.shape[0], 1], 0), n))
    value = c.reshape(c.take(c.flatten(flat), source, 0), [*shape[:-1], 1])
    return tuple(
        c.reshape(c.permute(v, back), s) for v, s in zip((value, position), c.out_shapes, strict=True)
    )


# --- searches
SHORTEST_HALVED = 16  # line; shorter ones compare every edge


def _halve(c, line, x, right):
    """How many edges of a sorted line come before each x, power of two by power of two from the highest."""
    n = line.shape[-1]
    first = c.number("i64", 0)
    if len(line.shape) > 1:  # a line for each row of x
        rows = numel(line.shape[:-1])
        lead = c.iota("i64", [rows], 0)
        lead = c.reshape(c.broadcast(c.unsqueeze(lead, 1), [rows, x.shape[-1]]), x.shape)
        first = c.mul(lead, n)
    flat = c.flatten(line)
    low = c.number("i64", 0, x.shape)
    step = 1 << (n.bit_length() - 1)
    while step:
        probe = c.add(low, step)
        last = c.ew("min", probe, n)
        edge = c.take(flat, c.add(c.sub(last, 1), first), 0)
        before = c.no(c.lt(x, edge)) if right else c.no(c.le(x, edge))
        low = c.where(c.both(c.le(probe, n), before), probe, low)
        step >>= 1
    return c.cast(low, c.out_dtype)


def _search(c, line, x, right, side, sorter):
    right = right or side == "right"
    if sorter is not None:
        raise Unsupported("searchsorted through a sorter")
    shape = list(x.shape)
    n = line.shape[-1]
    if type(n) is not int or n > LONGEST_LINE:
        raise Unsupported("search in a long row")
    if line.dtype != x.dtype:
        raise Unsupported("search for one dtype in another")
    if n > SHORTEST_HALVED:
        return _halve(c, line, x, right)
    if len(line.shape) > 1 and shape:
        line = c.reshape(line, [*line.shape[:-1], 1, n])
    wide = [*shape, n]
    edge, key = c.broadcast(line, wide), c.broadcast(c.reshape(x, [*shape, 1]), wide)
    stays = c.no(c.lt(key, edge)) if right else c.no(c.le(key, edge))
    return c.cast(c.reduce("sum", c.cast(stays, "i64"), [len(shape)]), c.out_dtype)


@lower("searchsorted.Tensor")
def searchsorted(c, line, x, *, out_int32=False, right=False, side=None, sorter=None):
    return _search(c, line, x, right, side, sorter)


@lower("searchsorted.Scalar")
def searchsorted_scalar(c, line, x, *, out_int32=False, right=False, side=None, sorter=None):
    return _search(c, line, c.scalar(x, line.dtype), right, side, sorter)


@lower("bucketize.Tensor")
def bucketize(c, x, line, *, out_int32=False, right=False):
    if len(line.shape) != 1:
        raise Unsupported("boundaries of several axes")
    return _search(c, line, x, right, None, None)


@lower("bucketize.Scalar")
def bucketize_scalar(c, x, line, *, out_int32=False, right=False):
    return _search(c, line, c.scalar(x, line.dtype), right, None, None)


# --- running extrema
def _running(op):
    def lowering(c, x, dim):
        if not x.shape:
            return _scalar_result(c, x)
        dim = axis_of(dim, len(x.shape))
        wide = c.cast(x, "u8") if x.dtype == "b8" else c.cast(x, dtypes.compute(x.dtype))
        best = c.make(op, [wide], ints=[dim])
        hit = c.eq(wide, best)
        if wide.dtype in dtypes.FLOATS:
            hit = c.either(hit, c.ne(wide, wide))
        at = c.where(hit, c.iota("i64", x.shape, dim), c.number("i64", 0))
        return c.cast(best, x.dtype), c.make("cummax", [at], ints=[dim])

    return lowering


lower("cummax.default")(_running("cummax"))
lower("cummin.default")(_running("cummin"))


def _scaled_sums(c, x, top, weights=None):
    """Of each prefix of the last axis the sum of e^(x - top), where no x of it is above its top; with weights, of their products
    with it, and without the prefix's last element. Each block has its own, and what the sums of blocks make of those before it."""
    *lead, n = x.shape
    rank = len(x.shape)
    size = n if n <= 2 * SUMMED_BLOCK else SUMMED_BLOCK
    blocks = -(-n // size)

    def cut(v):
        return c.reshape(c.pad(v, [0] * rank, [*lead, blocks * size], 0), [*lead, blocks, size])

    def parts(top):
        wide = [*lead, blocks, top.shape[-1], size]
        powers = c.ew("exp", c.sub(c.broadcast(c.unsqueeze(x, rank), wide), c.broadcast(c.unsqueeze(top, rank + 1), wide)))
        return powers if plain else c.mul(powers, c.broadcast(c.unsqueeze(weights, rank), wide))

    plain = weights is None
    x, top, weights = cut(x), cut(top), None if plain else cut(weights)
    each = parts(top)
    seen = c.ew("le" if plain else "lt", *(c.iota("i64", each.shape, axis) for axis in (rank + 1, rank)))
    sums = c.reduce("sum", c.where(seen, each, c.number(x.dtype, 0)), [rank + 1])
    if blocks > 1:
        first, last = c.slice_axis(top, rank, 0, 1), c.slice_axis(top if plain else x, rank, size - 1, 1)
        totals = c.slice_axis(sums, rank, size - 1, 1) if plain else c.reduce("sum", parts(last), [rank + 1])
        before = _scaled_sums(c, *(c.reshape(v, [*lead, blocks]) for v in (last, first, totals)))
        scale = c.ew("exp", c.sub(c.broadcast(first, x.shape), top))
        sums = c.add(sums, c.mul(c.broadcast(c.unsqueeze(before, rank), x.shape), scale))
    return c.slice_axis(c.reshape(sums, [*lead, blocks * size]), rank - 1, 0, n)


@lower("logcumsumexp.default")
def logcumsumexp(c, x, dim):
    """Each prefix apart from its own largest element, so that none of them overflows or vanishes."""
    if not x.shape:
        return x
    moved, back = _last(c, x, dim)
    if type(moved.shape[-1]) is not int:
        raise Unsupported("logcumsumexp of rows of unknown length")

    def form(x):
        top = c.make("cummax", [x], ints=[len(x.shape) - 1])
        most = c.number(x.dtype, LARGEST[x.dtype])
        top = c.ew("max", c.ew("min", top, most), c.ew("neg", most))
        return c.permute(c.add(c.ew("log", _scaled_sums(c, x, top)), top), back)

    return compute(c, form, moved)
