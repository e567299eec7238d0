# hologram_torch/lowering/creation.py: tensors from numbers
from ..graph import dtypes
from ..graph.builder import Value
from . import Unsupported, lower


def _filled(c, value):
    out = c.out_dtype
    return c.broadcast(c.scalar(value, out), c.out_shape)


@lower("full.default", "full_like.default")
def full(c, _, fill_value, **__):
    return _filled(c, fill_value)


@lower("new_full.default")
def new_full(c, _, size, fill_value, **__):
    return _filled(c, fill_value)


@lower("fill.Scalar", "fill.Tensor")
def fill(c, _, value):
    return _filled(c, value)


@lower("scalar_tensor.default")
def scalar_tensor(c, value, **_):
    return _filled(c, value)


@lower("zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format", "empty_like.default",
       "new_empty.default", "empty_strided.default", "new_empty_strided.default", "empty_permuted.default",
       "zero.default", "_efficientzerotensor.default", "_new_zeros_with_same_feature_meta.default")  # fmt: skip
def zeros(c, *_, **__):
    return c.number(c.out_dtype, 0, c.out_shape)


@lower("ones.default", "ones_like.default", "new_ones.default")
def ones(c, *_, **__):
    return c.number(c.out_dtype, 1, c.out_shape)


def _line(c, start, step):
    out = c.out_dtype
    (n,) = c.out_shape
    if out not in dtypes.FLOATS:
        position = c.iota("i64", [n], 0)
        return c.cast(c.add(c.mul(position, c.scalar(step, "i64")), c.scalar(start, "i64")), out)
    position = c.iota("f64", [n], 0)
    return c.cast(c.add(c.mul(position, c.scalar(step, "f64")), c.scalar(start, "f64")), out)


@lower("arange.default")
def arange(c, end, **_):
    return _line(c, 0, 1)


@lower("arange.start")
def arange_start(c, start, end, **_):
    return _line(c, start, 1)


@lower("arange.start_step")
def arange_step(c, start, end, step=1, **_):
    return _line(c, start, step)


@lower("prims.iota.default")
def iota(c, length, *, start, step, **_):
    return _line(c, start, step)


@lower("eye.default", "eye.m")
def eye(c, *_, **__):
    shape = c.out_shape
    return c.cast(c.eq(c.iota("i64", shape, 0), c.iota("i64", shape, 1)), c.out_dtype)


def _triangle(c, x, keep_upper, diagonal):
    shape = x.shape
    row, column = c.iota("i64", shape, len(shape) - 2), c.iota("i64", shape, len(shape) - 1)
    shifted = c.add(row, c.scalar(diagonal, "i64"))
    keep = c.le(shifted, column) if keep_upper else c.le(column, shifted)
    return c.where(keep, x, c.number(x.dtype, 0))


@lower("triu.default")
def triu(c, x, diagonal=0):
    return _triangle(c, x, True, diagonal)


@lower("tril.default")
def tril(c, x, diagonal=0):
    return _triangle(c, x, False, diagonal)


@lower("copy.default")
def copy(c, x, source, non_blocking=False):
    return c.broadcast(c.cast(source, x.dtype), x.shape)


@lower("linspace.default")
def linspace(c, start, end, steps, **_):
    """As ATen: from both ends towards the middle."""
    out = c.out_dtype
    if out not in dtypes.FLOATS or type(steps) is not int or any(type(v) is Value for v in (start, end)):
        raise Unsupported("integer or symbolic linspace")
    if steps == 1:
        return c.number(out, start, [1])
    via = dtypes.compute(out)
    if steps == 0:
        return c.number(out, 0, [0])
    step = (float(end) - float(start)) / (steps - 1)
    position = c.iota(via, [steps], 0)
    up = c.add(c.mul(position, step), float(start))
    down = c.sub(c.number(via, float(end)), c.mul(c.sub(c.number(via, steps - 1), position), step))
    return c.cast(c.where(c.lt(position, steps // 2), up, down), out)
