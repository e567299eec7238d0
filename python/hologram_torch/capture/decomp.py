# hologram_torch/capture/decomp.py: operators that are taken apart before lowering
import functools

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ..translate import refusals
from .forms import WIDE, widened

aten = torch.ops.aten


def table() -> dict:
    """Decompositions by operator overload: PyTorch's core set, without what has a native lowering."""
    from . import chunked

    return _table(chunked.known())


@functools.cache
def _table(chunked: bool) -> dict:
    from torch._decomp import decomposition_table

    from .. import lowering

    out = {op: f for op, f in _core().items() if not lowering.has_lowering(str(op))}
    for name in _WHOLE:
        out.pop(getattr(getattr(aten, name, None), "default", None), None)
    for name in _ALSO:
        packet, overload = name.split(".")
        op = getattr(getattr(aten, packet, None), overload, None)
        if op is not None and op in decomposition_table:
            out[op] = decomposition_table[op]
    out |= _own()
    return {op: _unless_refused(op, f) for op, f in out.items()}


def _unless_refused(op, function):
    """The decomposition of an operator for what eager's kernel of it takes; the rest stays whole."""
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    gives_back = op == torch.ops.aten.native_dropout.default  # as torch.dropout, which tracing turns into it, does empty tensors
    apart = not composite and not gives_back and not any(r.alias_info for r in op._schema.returns)

    @functools.wraps(function)
    def decompose(*args, **kwargs):
        if refusals.of(op, args, kwargs) is not None:
            return NotImplemented
        with refusals.inside():
            result = function(*args, **kwargs)
            return _apart(result, (args, kwargs)) if apart else result

    return decompose


def _apart(results, operands):
    """Copies of what a decomposition gives as a view of an operand or of a list's part: eager's kernels have memory of their own for it."""

    def storage(t):
        return t.untyped_storage()._cdata if isinstance(t, torch.Tensor) and t.layout == torch.strided else None

    own = {storage(t) for t in tree_leaves(operands)} - {None}
    return tree_map(lambda t: t.clone() if storage(t) in own else t, results)


def _core() -> dict:
    """PyTorch's core set without the composite operators, which tracing takes apart anyway and whose listing in
    core_aten_decompositions takes 0.1 s of a process's first call."""
    from torch import _decomp

    quick = getattr(_decomp, "_core_aten_decompositions_post_autograd", None)
    return dict((quick or _decomp.core_aten_decompositions)())


# Whose decomposition gives other results than the operator, takes chances that it refuses, or draws other numbers on a GPU.
_WHOLE = ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward", "bernoulli")

# Not in the core set, but with a decomposition whose parts are native.
_ALSO = (
    "native_batch_norm.default", "_native_batch_norm_legit.default", "_batch_norm_with_update.default",
    "_batch_norm_with_update_functional.default", "_batch_norm_no_update.default", "hypot.default", "ldexp.Tensor",
    "special_zeta.self_scalar", "special_zeta.other_scalar",
    "dist.default", "upsample_bilinear2d.vec", "upsample_nearest2d.vec",
    *(f"{name}{n}d.default" for n in (1, 2, 3) for name in ("upsample_nearest", "_upsample_nearest_exact")),
    "upsample_bicubic2d.default", "upsample_bilinear2d.default", "upsample_trilinear3d.default",
    "heaviside.default", "_addmm_activation.default", "batch_norm_backward.default",
    "dropout.default", "tril_indices.default", "triu_indices.default",
)  # fmt: skip


def _loss(op):
    """A loss that eager computes in the operand's type, whatever the target's, where tracing promises the wider one."""

    def decompose(x, target, reduction=1, *rest):
        from torch._decomp import decomposition_table

        whole = decomposition_table[op]
        if torch.broadcast_shapes(x.shape, target.shape) != x.shape:
            return NotImplemented if op == aten.soft_margin_loss.default else whole(x, target, reduction, *rest)
        if x.dtype == target.dtype:
            return whole(x, target, reduction, *rest)
        if op == aten.soft_margin_loss.default:
            loss = (-x * target).to(x.dtype).exp().log1p()
        else:
            loss = whole(x, target, 0, *rest).to(x.dtype)
        return loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()

    return decompose


def _normalised(op):
    """Halves that are normalised with float32 weights or statistics: on the processor eager's means and deviations are then float32,
    where tracing says that they are halves."""

    def decompose(x, *rest):
        others = {t.dtype for t in rest if isinstance(t, torch.Tensor)} - {x.dtype}
        if x.device.type != "cpu" or x.dtype not in WIDE or not others:
            return NotImplemented
        y, *moments = op(widened(x), *rest)
        return y.to(x.dtype), *moments

    return decompose


def _embedding_backward(gradient, indices, num_weights, padding_idx, scale_grad_by_freq):
    if not scale_grad_by_freq:
        return NotImplemented
    from torch._decomp import decomposition_table

    return decomposition_table[aten.embedding_dense_backward.default](gradient, indices, num_weights, padding_idx, True)


def _own() -> dict:
    from . import attention  # noqa: F401  (registers hologram::sdpa)

    from . import chunked, foreach, matrices, parts, random_operators, sampled, segments

    tables = parts, sampled, segments, chunked, foreach, matrices, random_operators
    return {op: f for part in tables for op, f in part.table().items()} | {
        aten.embedding_dense_backward.default: _embedding_backward,
        aten._transformer_encoder_layer_fwd.default: _encoder_layer,
        aten._native_multi_head_attention.default: _multi_head_attention,
        **{op: _loss(op) for op in (aten.soft_margin_loss.default, aten.huber_loss.default)},
        **{op: _normalised(op) for op in (
            aten.native_layer_norm.default, aten.native_group_norm.default, aten._native_batch_norm_legit_functional.default,
            aten._native_batch_norm_legit.no_stats, aten._native_batch_norm_legit_no_training.default,
        )},
    }  # fmt: skip


def _attend(x, width, heads, qkv_weight, qkv_bias, out_weight, out_bias, mask, mask_type):
    batch, length, _ = x.shape
    q, k, v = torch.nn.functional.linear(x, qkv_weight, qkv_bias).chunk(3, -1)
    q, k, v = (t.reshape(batch, length, heads, width // heads).transpose(1, 2) for t in (q, k, v))
    if mask is not None:
        if mask_type == 1:  # padding: [batch, length], true where hidden
            mask = mask.reshape(batch, 1, 1, length)
        elif mask_type == 2:
            mask = mask.reshape(batch, -1, length, length) if mask.dim() == 4 else mask
        mask = mask.logical_not() if mask.dtype == torch.bool else mask
    y = torch.ops.hologram.sdpa(q, k, v, mask, False, (width // heads) ** -0.5, False)
    y = y.transpose(1, 2).reshape(batch, length, width)
    return torch.nn.functional.linear(y, out_weight, out_bias)


def _encoder_layer(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
    norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
    mask=None, mask_type=None,
):  # fmt: skip
    """torch.nn.TransformerEncoderLayer in eval mode, which eager runs as one operator."""
    if src.is_nested or src.dim() != 3:
        return NotImplemented
    norm = torch.nn.functional.layer_norm

    def attend(x):
        return _attend(x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)

    def feed(x):
        y = torch.nn.functional.linear(x, ffn_weight_1, ffn_bias_1)
        y = torch.nn.functional.gelu(y) if use_gelu else torch.relu(y)
        return torch.nn.functional.linear(y, ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attend(norm(src, (embed_dim,), norm_weight_1, norm_bias_1, eps))
        return x + feed(norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps))
    x = norm(src + attend(src), (embed_dim,), norm_weight_1, norm_bias_1, eps)
    return norm(x + feed(x), (embed_dim,), norm_weight_2, norm_bias_2, eps)


def _multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias,
    mask=None, need_weights=True, average_attn_weights=True, mask_type=None,
):  # fmt: skip
    if need_weights or query is not key or key is not value or query.is_nested or query.dim() != 3:
        return NotImplemented
    out = _attend(query, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)
    return out, query.new_empty(0)
