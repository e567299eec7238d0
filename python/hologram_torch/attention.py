# hologram_torch/attention.py: hologram::sdpa, scaled dot product attention that stays one operator
import torch
from torch.nn import functional

_library = torch.library.Library("hologram", "DEF")
_library.define(
    "sdpa(Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, float scale, bool grouped) -> Tensor"
)


def _run(query, key, value, mask, causal, scale, grouped):
    if mask is not None and mask.dtype not in (torch.bool, query.dtype):
        mask = mask.to(query.dtype)
    return functional.scaled_dot_product_attention(
        query, key, value, mask, 0.0, causal, scale=scale, enable_gqa=grouped
    )


@torch.library.impl(_library, "sdpa", "CompositeExplicitAutograd")
def sdpa(query, key, value, mask, causal, scale, grouped):
    out = _run(query, key, value, mask, causal, scale, grouped)
    return out.clone() if out._is_view() and out._base is query else out


@torch.library.impl(_library, "sdpa", "Meta")
def sdpa_meta(query, key, value, mask, causal, scale, grouped):
    """With eager's strides: those of the query where its flash kernel runs, else row-major."""
    if query.dim() == 4 and _is_flash(query, key, value, mask):
        return torch.empty_like(query)
    return query.new_empty((*_lead(query, key, value, grouped), query.shape[-2], value.shape[-1]))


def _is_flash(query, key, value, mask) -> bool:
    if query.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        return False
    same = query.shape[0] == key.shape[0] == value.shape[0] and query.shape[-1] == value.shape[-1]
    return same and (mask is None or not mask.requires_grad)


def _lead(query, key, value, grouped):
    if grouped:
        return tuple(query.shape[:-2])
    return tuple(torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2]))


def _setup(ctx, inputs, output):
    query, key, value, mask, causal, scale, grouped = inputs
    ctx.save_for_backward(query, key, value, mask, output)
    ctx.choices = causal, scale, grouped


def _backward(ctx, gradient):
    """Recomputes the probabilities; a row's sum of gradient * output replaces the sum over keys."""
    query, key, value, mask, output = ctx.saved_tensors
    causal, scale, grouped = ctx.choices
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v, out, g = (t.to(wide) for t in (query, key, value, output, gradient))
    if grouped:
        repeats = query.shape[-3] // key.shape[-3]
        k, v = k.repeat_interleave(repeats, -3), v.repeat_interleave(repeats, -3)
    scores = q @ k.mT * scale
    if causal:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(keep.logical_not(), float("-inf"))
    if mask is not None:
        hidden = mask.logical_not() if mask.dtype == torch.bool else None
        scores = scores + mask.to(wide) if hidden is None else scores.masked_fill(hidden, float("-inf"))
    p = torch.ops.aten._safe_softmax(scores, -1)
    grad_v = p.mT @ g
    ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) * scale
    grads = [ds @ k, ds.mT @ q, grad_v]
    if grouped:
        for i in (1, 2):
            heads = (*key.shape[:-2], query.shape[-3] // key.shape[-3])
            grads[i] = grads[i].reshape(*heads, *grads[i].shape[-2:]).sum(-3)
    like = (query, key, value)
    grads = [x.sum_to_size(t.shape).to(t.dtype) for x, t in zip(grads, like, strict=True)]
    return (*grads, None, None, None, None)


torch.library.register_autograd("hologram::sdpa", _backward, setup_context=_setup)
