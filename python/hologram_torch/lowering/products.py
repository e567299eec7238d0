# hologram_torch/lowering/products.py: matrix products and attention
import math

import torch
from hologram import _quantised

from .. import precision
from ..graph import dtypes
from ..graph.builder import f64_bits
from . import Unsupported, lower
from .pointwise import compute
from .views import axis_of


def _product(c, x, y, wide=False):
    if x.dtype == "b8" or y.dtype != x.dtype:
        raise Unsupported("product of truth values or of two dtypes")
    return _quantised.product(c, x, y) or c.matmul(x, y, wide)


@lower("mm.default", "bmm.default")
def mm(c, x, y):
    return _product(c, x, y)


@lower("linalg_cross.default")
def cross(c, x, y, *, dim=-1):
    axis = axis_of(dim, len(c.out_shape))

    def form(x, y):
        x, y = ([c.slice_axis(c.broadcast(v, c.out_shape), axis, k, 1) for k in range(3)] for v in (x, y))
        places = ((1, 2), (2, 0), (0, 1))
        return c.concat([c.sub(c.mul(x[i], y[j]), c.mul(x[j], y[i])) for i, j in places], axis)

    return compute(c, form, x, y)


@lower("_int_mm.default")
def int_mm(c, x, y):
    """Bytes, signed or unsigned ones, summed in 32 bits."""
    return c.make("dot_general", [x, y], ints=[0], dtype="i32")


@lower("_weight_int8pack_mm.default")
def int8_weights(c, x, w, scales):
    """x · wᵀ in float32, then a factor for each column."""
    z = c.dot(c.cast(x, "f32"), c.cast(c.permute(w, [1, 0]), "f32"))
    return c.cast(c.mul(z, c.cast(scales, "f32")), c.out_dtype)


@lower("_weight_int4pack_mm_for_cpu.default")
def int4_weights(c, x, w, group, scales_and_zeros):
    """x · weights of (w - 8) * scale + zero; PyTorch's packing, which depends on its instruction set, puts columns n and
    n + 32 of 64 into one byte."""
    columns, depth = c.hint(w.shape[0]), 2 * c.hint(w.shape[1])
    if columns % 64 or torch.backends.cpu.get_cpu_capability() != "AVX512":
        raise Unsupported("4-bit weights in another layout")
    w = c.reshape(w, [columns // 64, depth, 1, 32])
    w = c.concat([c.ew("bit_and", w, c.number("u8", 15)), c.ew("shr", w, c.number("u8", 4))], 2)
    w = c.cast(c.reshape(c.permute(w, [1, 0, 2, 3]), [depth // group, group, columns]), "f32")
    scale, zero = (
        c.unsqueeze(c.cast(c.select_axis(scales_and_zeros, 2, i), "f32"), 1) for i in (0, 1)
    )
    w = c.reshape(c.add(c.mul(c.sub(w, 8), scale), zero), [depth, columns])
    return c.cast(c.dot(c.cast(x, "f32"), w), c.out_dtype)


@lower("addmm.default", "baddbmm.default")
def addmm(c, bias, x, y, *, beta=1, alpha=1):
    return _combine(c, _product(c, x, y, wide=True), bias, alpha, beta)


def _combine(c, z, bias, alpha, beta):
    """alpha * z + beta * bias, rounded once; a beta of 0 leaves the bias out, NaN included."""
    wide = z.dtype
    if not (type(alpha) in (int, float) and alpha == 1):
        z = c.mul(z, c.scalar(alpha, wide))
    if not (type(beta) in (int, float) and beta == 0):
        bias = c.cast(bias, wide)
        if not (type(beta) in (int, float) and beta == 1):
            bias = c.mul(bias, c.scalar(beta, wide))
        z = c.add(z, bias)
    return c.cast(z, c.out_dtype)


@lower("addbmm.default")
def addbmm(c, bias, x, y, *, beta=1, alpha=1):
    """One product: the batch joins the summed axis."""
    batch, rows, depth = x.shape
    x = c.reshape(c.permute(x, [1, 0, 2]), [rows, batch * depth])
    z = _product(c, x, c.reshape(y, [batch * depth, y.shape[2]]), wide=True)
    return c.broadcast(_combine(c, z, bias, alpha, beta), c.out_shape)


@lower("_cdist_forward.default")
def cdist(c, x, y, p, compute_mode):
    """Distances between the rows of x and those of y in the p-norm."""
    wide = dtypes.compute(c.out_dtype)
    x, y = c.unsqueeze(c.cast(x, wide), len(x.shape) - 1), c.unsqueeze(c.cast(y, wide), len(y.shape) - 2)
    apart = c.ew("abs", c.sub(x, y))
    axes = [len(apart.shape) - 1]
    if p == 0:
        out = c.reduce("sum", c.cast(c.ne(apart, 0), wide), axes)
    elif p == float("inf"):
        out = c.reduce("max", apart, axes) if c.hint(apart.shape[-1]) else c.number(wide, 0, apart.shape[:-1])
    elif p == 1:
        out = c.reduce("sum", apart, axes)
    elif p == 2:
        out = c.ew("sqrt", c.reduce("sum", c.mul(apart, apart), axes))
    else:
        out = c.ew("pow", c.reduce("sum", c.ew("pow", apart, float(p)), axes), 1.0 / float(p))
    return c.cast(out, c.out_dtype)


@lower("_trilinear.default")
def trilinear(c, x, y, z, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over `sumdim` of the product of three operands, each with axes of 1 put in."""
    wide = dtypes.compute(c.out_dtype)
    parts = []
    for v, axes in ((x, expand1), (y, expand2), (z, expand3)):
        v = c.cast(v, wide)
        for axis in sorted(axes):
            v = c.unsqueeze(v, axis)
        parts.append(v)
    x, y, z = parts
    inner = [a for a in sumdim if a in expand3 and a not in [*expand1, *expand2]]
    if inner and wide in dtypes.FLOATS and all(type(n) is int for v in (x, y) for n in v.shape):
        x = _summed_over(c, x, y, inner)
    else:
        x = c.mul(x, y)
    return c.cast(c.reduce("sum", c.mul(x, z), sumdim), c.out_dtype)


def _summed_over(c, x, y, inner):
    """The sum over the axes `inner` of x · y, these kept as 1: a matrix product."""
    axes = [a for a in range(len(x.shape)) if a not in inner]
    rows = [a for a in axes if y.shape[a] == 1]
    columns = [a for a in axes if x.shape[a] == 1 and a not in rows]
    lead = [a for a in axes if a not in rows and a not in columns]

    def shape(v, *groups):
        return [math.prod(v.shape[a] for a in group) for group in groups]

    left = c.reshape(c.permute(x, lead + rows + columns + inner), shape(x, lead, rows, inner))
    right = c.reshape(c.permute(y, lead + rows + inner + columns), shape(y, lead, inner, columns))
    order = lead + rows + columns + inner
    sizes = [1 if a in inner else (y if a in columns else x).shape[a] for a in order]
    out = c.reshape(_product(c, left, right), sizes)
    return c.permute(out, [order.index(a) for a in range(len(order))])


@lower("mv.default")
def mv(c, x, y):
    return c.reshape(_product(c, x, c.unsqueeze(y, 1)), c.out_shape)


@lower("addmv.default")
def addmv(c, bias, x, y, *, beta=1, alpha=1):
    z = c.reshape(_product(c, x, c.unsqueeze(y, 1), wide=True), c.out_shape)
    return _combine(c, z, bias, alpha, beta)


@lower("dot.default", "vdot.default")
def dot(c, x, y):
    wide = dtypes.compute(x.dtype)
    return c.cast(c.reduce("sum", c.mul(c.cast(x, wide), c.cast(y, wide)), [0]), x.dtype)


@lower("ger.default", "outer.default")
def outer(c, x, y):
    return c.mul(c.cast(c.unsqueeze(x, 1), c.out_dtype), c.cast(c.unsqueeze(y, 0), c.out_dtype))


def _attention_operands(c, query, key, value, mask, grouped):
    """Operands of the graph's attention; key and value with the query's heads unless they are shared in groups."""
    rank = len(query.shape)
    if rank < 3:
        query, key, value = (c.reshape(v, [1] * (3 - rank) + list(v.shape)) for v in (query, key, value))
    lead = c.broadcast_shape(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    query, key, value = (c.broadcast(v, [*lead, *v.shape[-3:]]) for v in (query, key, value))
    if not grouped:
        heads = c.broadcast_shape(*(v.shape[-3:-2] for v in (query, key, value)))
        query, key, value = (c.broadcast(v, [*lead, *heads, *v.shape[-2:]]) for v in (query, key, value))
    if mask is not None and mask.dtype not in ("b8", query.dtype):
        mask = c.cast(mask, query.dtype)
    return query, key, value, [] if mask is None else [mask]


@lower("hologram.sdpa.default")
def sdpa(c, query, key, value, mask, causal, scale, grouped, softcap=0.0):
    if precision.leaves_attention(query.dtype, query.shape[-2], softcap):
        raise Unsupported("bfloat16 attention on a processor with AMX")
    q, k, v, bias = _attention_operands(c, query, key, value, mask, grouped)
    out = c.make("attention", [q, k, v, *bias], ints=[int(causal), f64_bits(softcap)], bits=f64_bits(scale))
    return c.reshape(out, c.out_shape)


@lower("hologram.sdpa_lse.default")
def sdpa_lse(c, query, key, value, mask, causal, scale, grouped, softcap=0.0):
    q, k, v, bias = _attention_operands(c, query, key, value, mask, grouped)
    made = (
        c.make(op, [q, k, v, *bias], ints=[int(causal), f64_bits(softcap)], bits=f64_bits(scale))
        for op in ("attention", "attention_lse")
    )
    return tuple(c.reshape(x, shape) for x, shape in zip(made, c.out_shapes, strict=True))


@lower("hologram.sdpa_backward.default")
def sdpa_backward(
    c, gradient, query, key, value, mask, output, lse, causal, scale, grouped, softcap=0.0
):  # fmt: skip
    q, k, v, bias = _attention_operands(c, query, key, value, mask, grouped)
    wide = dtypes.compute(q.dtype)
    shape = [*q.shape[:-1], v.shape[-1]]
    gradient, output = (c.reshape(c.cast(x, q.dtype), shape) for x in (gradient, output))
    rows = c.reduce("sum", c.mul(c.cast(gradient, wide), c.cast(output, wide)), [len(shape) - 1])
    operands = [q, k, v, gradient, c.reshape(lse, shape[:-1]), rows, *bias]
    made = (
        c.make("attention_grad", operands, ints=[i, int(causal), f64_bits(softcap)], bits=f64_bits(scale))
        for i in range(3)
    )
    return tuple(_summed_to(c, x, like.shape) for x, like in zip(made, (query, key, value), strict=True))


@lower("hologram.sdpa_bias_backward.default")
def sdpa_bias_backward(
    c, gradient, query, key, value, mask, output, lse, causal, scale, grouped, softcap=0.0
):  # fmt: skip
    """The scores' gradient is a result here, or summed to one, so that it is stored; the others are products with it."""
    if causal:
        raise Unsupported("gradient of a bias beside a causal mask")
    q, k, v, (bias,) = _attention_operands(c, query, key, value, mask, grouped)
    repeats = 1 if not grouped else c.hint(q.shape[-3]) // c.hint(k.shape[-3])
    k, v = (_repeated(c, x, repeats) for x in (k, v))
    wide = dtypes.compute(q.dtype)
    shape = [*q.shape[:-1], v.shape[-1]]
    gradient, output = (c.reshape(c.cast(x, q.dtype), shape) for x in (gradient, output))
    rows = c.reduce("sum", c.mul(c.cast(gradient, wide), c.cast(output, wide)), [len(shape) - 1], True)
    lse = c.reshape(lse, [*shape[:-1], 1])
    lse = c.where(c.eq(lse, -math.inf), math.inf, lse)  # of a row that sees nothing
    scores, slope = c.mul(c.dot(q, _turned(c, k), wide=True), scale), None
    if softcap:
        tanh = c.ew("tanh", c.mul(scores, 1 / softcap))
        scores, slope = c.mul(tanh, softcap), c.sub(1.0, c.mul(tanh, tanh))
    p = c.ew("exp", c.sub(c.add(scores, c.cast(bias, wide)), lse))
    change = c.mul(p, c.sub(c.dot(gradient, _turned(c, v), wide=True), rows))
    by_score = c.cast(change if slope is None else c.mul(change, slope), q.dtype)
    grads = [
        c.cast(c.mul(c.dot(by_score, k, wide=True), scale), q.dtype),
        _joined(c, c.mul(c.dot(_turned(c, by_score), q, wide=True), scale), repeats),
        _joined(c, c.dot(_turned(c, c.cast(p, q.dtype)), gradient, wide=True), repeats),
        c.broadcast(change, c.broadcast_shape(change.shape, bias.shape)),
    ]
    return tuple(
        c.cast(_summed_to(c, x, like.shape), like.dtype)
        for x, like in zip(grads, (query, key, value, mask), strict=True)
    )


def _turned(c, x):
    return c.transpose(x, len(x.shape) - 2, len(x.shape) - 1)


def _repeated(c, x, times):
    """Every head `times` times in a row."""
    if times == 1:
        return x
    *lead, heads, n, depth = x.shape
    return c.reshape(c.broadcast(c.reshape(x, [*lead, heads, 1, n, depth]), [*lead, heads, times, n, depth]),
                     [*lead, heads * times, n, depth])  # fmt: skip


def _joined(c, x, times):
    """The sum over heads that _repeated made of one."""
    if times == 1:
        return x
    *lead, heads, n, depth = x.shape
    axis = len(lead) + 1
    return c.reduce("sum", c.reshape(x, [*lead, c.hint(heads) // times, times, n, depth]), [axis])


def _summed_to(c, x, shape):
    """The gradient of a tensor of `shape` that was broadcast to x's."""
    rank = len(x.shape)
    full = [1] * (rank - len(shape)) + list(shape)
    axes = [i for i in range(rank) if full[i] == 1 and x.shape[i] != 1]
    return c.reshape(c.cast(c.reduce("sum", x, axes), x.dtype) if axes else x, list(shape))


def _flash_scale(query, dropout, scale):
    if dropout or (scale is None and (not isinstance(query.shape[-1], int) or query.shape[-1] == 0)):
        raise Unsupported("attention with dropout, or of a head size known at run time or 0")
    return query.shape[-1] ** -0.5 if scale is None else scale


@lower("_scaled_dot_product_flash_attention_for_cpu.default")
def flash(c, query, key, value, dropout=0.0, causal=False, *, attn_mask=None, scale=None):
    scale = _flash_scale(query, dropout, scale)
    return sdpa_lse(c, query, key, value, attn_mask, causal, scale, False)


@lower("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_backward(
    c, gradient, query, key, value, output, lse, dropout, causal, *, attn_mask=None, scale=None
):  # fmt: skip
    scale = _flash_scale(query, dropout, scale)
    return sdpa_backward(c, gradient, query, key, value, attn_mask, output, lse, causal, scale, False)
