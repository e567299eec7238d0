# hologram_torch/lowering/reductions.py: reductions, scans, softmax
import math

from ..graph import dtypes
from . import Unsupported, lower
from .views import axis_of


def axes_of(dim, x):
    """The axes that `dim` (None, a number or a list; empty: all) names."""
    rank = len(x.shape)
    if dim is None or dim == [] or dim == ():
        return list(range(rank))
    if type(dim) is int:
        dim = [dim]
    return [axis_of(d, rank) for d in dim] if rank else []


def _some(c, dim, x):
    """The same of an operator that eager refuses without elements there."""
    axes = axes_of(dim, x)
    c.refuse_nothing(axes)
    return axes


@lower("sum.default", "sum.dim_IntList")
def sum_(c, x, dim=None, keepdim=False, *, dtype=None):
    return c.reduce("sum", c.cast(x, c.out_dtype), axes_of(dim, x), keepdim)


@lower("nansum.default")
def nansum(c, x, dim=None, keepdim=False, *, dtype=None):
    x = c.cast(x, c.out_dtype)
    if x.dtype in dtypes.FLOATS:
        x = c.where(c.ne(x, x), c.number(x.dtype, 0), x)
    return c.reduce("sum", x, axes_of(dim, x), keepdim)


@lower("mean.default", "mean.dim")
def mean(c, x, dim=None, keepdim=False, *, dtype=None):
    out = c.out_dtype
    x = c.cast(x, dtypes.compute(out))
    return c.cast(c.mean(x, axes_of(dim, x), keepdim), out)


@lower("prod.default", "prod.dim_int")
def prod(c, x, dim=None, keepdim=False, *, dtype=None):
    return c.reduce("prod", c.cast(x, c.out_dtype), axes_of(dim, x), keepdim)


@lower("amax.default", "max.default")
def amax(c, x, dim=None, keepdim=False):
    return c.reduce("max", x, _some(c, dim, x), keepdim)


@lower("amin.default", "min.default")
def amin(c, x, dim=None, keepdim=False):
    return c.reduce("min", x, _some(c, dim, x), keepdim)


@lower("aminmax.default")
def aminmax(c, x, *, dim=None, keepdim=False):
    axes = _some(c, dim, x)
    return c.reduce("min", x, axes, keepdim), c.reduce("max", x, axes, keepdim)


def _position(op):
    def lowering(c, x, dim=None, keepdim=False):
        if x.dtype == "b8":
            x = c.cast(x, "u8")
        axes = _some(c, dim, x)
        if dim is None and keepdim:
            return c.reshape(c.reduce(op, x, axes), [1] * len(x.shape))
        return c.reduce(op, x, axes, keepdim)

    return lowering


lower("argmax.default")(_position("argmax"))
lower("argmin.default")(_position("argmin"))


def _with_position(op):
    def lowering(c, x, dim, keepdim=False):
        if not x.shape:
            return x, c.number("i64", 0)
        axes = _some(c, dim, x)
        plain = c.cast(x, "u8") if x.dtype == "b8" else x
        return c.reduce(op, x, axes, keepdim), c.reduce("arg" + op, plain, axes, keepdim)

    return lowering


lower("max.dim")(_with_position("max"))
lower("min.dim")(_with_position("min"))


@lower("any.default", "any.dim", "any.dims")
def any_(c, x, dim=None, keepdim=False):
    return _truth(c, "max", x, dim, keepdim)


@lower("all.default", "all.dim", "all.dims")
def all_(c, x, dim=None, keepdim=False):
    return _truth(c, "min", x, dim, keepdim)


def _truth(c, op, x, dim, keepdim):
    axes = axes_of(dim, x) if dim is None or type(dim) is int or len(dim) else []
    return c.cast(c.reduce(op, c.cast(x, "b8"), axes, keepdim), c.out_dtype)


@lower("count_nonzero.default", "count_nonzero.dim_IntList")
def count_nonzero(c, x, dim=None):
    return c.reduce("sum", c.cast(c.cast(x, "b8"), "i64"), axes_of(dim, x))


# --- second moments, in two passes
def moments(c, x, axes):
    """Mean and sum of squared deviations of a float value, with the axes kept as 1."""
    center = c.mean(x, axes, True)
    apart = c.sub(x, center)
    return center, c.reduce("sum", c.mul(apart, apart), axes, True)


def _variance(c, x, dim, correction):
    out = c.out_dtypes[0]
    x = c.cast(x, dtypes.compute(out))
    axes = axes_of(dim, x)
    center, squares = moments(c, x, axes)
    if c.count(x, axes) == 0:
        return center, center  # NaN, whatever the correction
    n = c.size_value(c.count(x, axes), x.dtype)
    correction = 1 if correction is None else correction
    freedom = c.ew("max", c.sub(n, correction), 0) if correction else n
    return c.div(squares, freedom), center


def _shaped(c, x, index=0):
    return c.cast(c.reshape(x, c.out_shapes[index]), c.out_dtypes[index])


@lower("var.correction")
def var(c, x, dim=None, *, correction=None, keepdim=False):
    return _shaped(c, _variance(c, x, dim, correction)[0])


@lower("var.default", "var.dim")
def var_unbiased(c, x, dim=None, unbiased=True, keepdim=False):
    if type(dim) is bool:
        dim, unbiased = None, dim
    return _shaped(c, _variance(c, x, dim, int(unbiased))[0])


@lower("std.correction")
def std(c, x, dim=None, *, correction=None, keepdim=False):
    return _shaped(c, c.ew("sqrt", _variance(c, x, dim, correction)[0]))


@lower("var_mean.correction")
def var_mean(c, x, dim=None, *, correction=None, keepdim=False):
    spread, center = _variance(c, x, dim, correction)
    return _shaped(c, spread), _shaped(c, center, 1)


@lower("std_mean.correction")
def std_mean(c, x, dim=None, *, correction=None, keepdim=False):
    spread, center = _variance(c, x, dim, correction)
    return _shaped(c, c.ew("sqrt", spread)), _shaped(c, center, 1)


@lower("logsumexp.default")
def logsumexp(c, x, dim, keepdim=False):
    out = c.out_dtype
    x = c.cast(x, dtypes.compute(out))
    axes = axes_of(dim, x)
    top = c.reduce("max", x, axes, True)
    top = c.where(c.eq(c.ew("abs", top), math.inf), c.number(x.dtype, 0), top)
    total = c.reduce("sum", c.ew("exp", c.sub(x, top)), axes, True)
    return _shaped(c, c.add(c.ew("log", total), top))


@lower("linalg_vector_norm.default")
def vector_norm(c, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    out = c.out_dtype
    x = c.cast(x, dtypes.compute(out))
    axes = axes_of(dim, x)
    size = c.ew("abs", x)
    if ord == math.inf or ord == -math.inf:
        return c.cast(c.reduce("max" if ord > 0 else "min", size, axes, keepdim), out)
    if ord == 0:
        return c.cast(c.reduce("sum", c.cast(c.ne(x, 0), x.dtype), axes, keepdim), out)
    if ord == 1:
        return c.cast(c.reduce("sum", size, axes, keepdim), out)
    if ord == 2:
        return c.cast(c.ew("sqrt", c.reduce("sum", c.mul(x, x), axes, keepdim)), out)
    total = c.reduce("sum", c.ew("pow", size, float(ord)), axes, keepdim)
    return c.cast(c.ew("pow", total, 1.0 / float(ord)), out)


# --- scans
def _scan(op):
    def lowering(c, x, dim, *, dtype=None):
        x = c.cast(x, c.out_dtype)
        if not x.shape:
            return x
        if x.dtype in dtypes.HALVES:
            return c.cast(c.make(op, [c.cast(x, "f32")], ints=[axis_of(dim, len(x.shape))]), x.dtype)
        return c.make(op, [x], ints=[axis_of(dim, len(x.shape))])

    return lowering


lower("cumsum.default")(_scan("cumsum"))
lower("cumprod.default")(_scan("cumprod"))


# --- softmax
def _softmax_parts(c, x, dim):
    axes = [axis_of(dim, len(x.shape))] if x.shape else []
    apart = c.sub(x, c.reduce("max", x, axes, True))
    grown = c.ew("exp", apart)
    return apart, grown, c.reduce("sum", grown, axes, True)


def _normalised(c, grown, total):
    """One division a row and a product an element: as exact to an ulp, and far cheaper."""
    return c.mul(grown, c.div(1.0, total))


def _widened(c, x, half_to_float):
    if half_to_float and x.dtype != "f16":
        raise Unsupported("half_to_float")
    return c.cast(x, dtypes.compute(c.out_dtype))


@lower("_softmax.default")
def softmax(c, x, dim, half_to_float):
    _, grown, total = _softmax_parts(c, _widened(c, x, half_to_float), dim)
    return c.cast(_normalised(c, grown, total), c.out_dtype)


@lower("_log_softmax.default")
def log_softmax(c, x, dim, half_to_float):
    apart, _, total = _softmax_parts(c, _widened(c, x, half_to_float), dim)
    return c.cast(c.sub(apart, c.ew("log", total)), c.out_dtype)


@lower("_safe_softmax.default")
def safe_softmax(c, x, dim, dtype=None):
    """Softmax in which a row of -inf gives zeros."""
    out = c.out_dtype
    x = c.cast(x, dtypes.compute(out))
    axes = [axis_of(dim, len(x.shape))] if x.shape else []
    _, grown, total = _softmax_parts(c, x, dim)
    hidden = c.eq(c.reduce("max", x, axes, True), -math.inf)
    return c.cast(c.where(hidden, c.number(x.dtype, 0), _normalised(c, grown, total)), out)


def _with_gradient(c, gradient, output, dim):
    if gradient.shape != output.shape:
        raise Unsupported("a gradient of another size")
    wide = dtypes.compute(output.dtype)
    return c.cast(gradient, wide), c.cast(output, wide), [axis_of(dim, len(output.shape))] if output.shape else []


@lower("_softmax_backward_data.default")
def softmax_backward(c, gradient, output, dim, input_dtype):
    g, y, axes = _with_gradient(c, gradient, output, dim)
    weighted = c.mul(g, y)
    return c.cast(c.sub(weighted, c.mul(y, c.reduce("sum", weighted, axes, True))), c.out_dtype)


@lower("_log_softmax_backward_data.default")
def log_softmax_backward(c, gradient, output, dim, input_dtype):
    g, y, axes = _with_gradient(c, gradient, output, dim)
    return c.cast(c.sub(g, c.mul(c.ew("exp", y), c.reduce("sum", g, axes, True))), c.out_dtype)
