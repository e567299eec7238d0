# hologram_torch/lowering/experts.py: products of groups of rows, each with a matrix of its own
import math

from ..graph import dtypes
from . import Unsupported, lower

_BLOCK = 16  # rows that are multiplied by one matrix at once


@lower("_grouped_mm.default", "transformers.grouped_mm_fallback.default")
def grouped_mm(c, x, matrices, offs=None, bias=None, out_dtype=None):
    """Rows of x [rows, depth] behind offs[g - 1] and before offs[g] times matrices[g] of [groups, depth, columns]. Rows behind the last
    end, which eager leaves unwritten, belong to the last group."""
    if offs is None or len(x.shape) != 2 or len(matrices.shape) != 3 or bias is not None:
        raise Unsupported("products of groups that are no rows")
    if x.dtype != matrices.dtype or x.dtype not in dtypes.FLOATS:
        raise Unsupported("products of groups in two dtypes")
    rows, groups = x.shape[0], matrices.shape[0]
    ends = c.cast(offs, "i64")
    few = type(rows) is int and type(groups) is int and rows <= groups
    z = _row_by_row(c, x, matrices, ends) if few else _in_blocks(c, x, matrices, ends)
    return c.cast(z, c.out_dtype)


def _group_of(c, ends, numbers):
    """The group of each number: how many ends are not above it; the last one for what is above all."""
    below = c.le(c.unsqueeze(ends, 0), c.unsqueeze(numbers, 1))
    return c.ew("min", c.reduce("sum", c.cast(below, "i64"), [1]), c.scalar(ends.shape[0] - 1, "i64"))


def _row_by_row(c, x, matrices, ends):
    """Sums, not products: each matrix is read once, as it lies, which is all the time that a few rows take."""
    wide = dtypes.compute(x.dtype)
    chosen = c.cast(c.take(matrices, _group_of(c, ends, c.iota("i64", [x.shape[0]], 0)), 0), wide)
    return c.reduce("sum", c.mul(chosen, c.unsqueeze(c.cast(x, wide), 2)), [1])


def _in_blocks(c, x, matrices, ends):
    """Every group begins a block of rows; a block is one product with one matrix, which is read where it lies."""
    rows, groups = x.shape[0], matrices.shape[0]
    number = lambda n: c.scalar(n, "i64")
    shift, last = number(int(math.log2(_BLOCK))), number(rows - 1)
    begins = c.pad(c.slice_axis(ends, 0, 0, groups - 1), [1], [groups], 0)
    blocks = c.ew("shr", c.add(c.sub(ends, begins), number(_BLOCK - 1)), shift)
    block_ends = c.make("cumsum", [blocks], ints=[0])
    block_begins = c.sub(block_ends, blocks)
    count = rows // _BLOCK + groups
    block = c.iota("i64", [count], 0)
    group = _group_of(c, block_ends, block)
    first = c.add(c.take(begins, group, 0), c.mul(c.sub(block, c.take(block_begins, group, 0)), number(_BLOCK)))
    places = c.add(c.unsqueeze(first, 1), c.iota("i64", [1, _BLOCK], 1))
    z = c.dot(c.take(x, c.ew("min", places, last), 0), c.take(matrices, group, 0))
    row = c.iota("i64", [rows], 0)
    group = _group_of(c, ends, row)
    at = c.add(c.mul(c.take(block_begins, group, 0), number(_BLOCK)), c.sub(row, c.take(begins, group, 0)))
    at = c.ew("min", at, number(count * _BLOCK - 1))
    return c.take(c.reshape(z, [count * _BLOCK, matrices.shape[2]]), at, 0)
