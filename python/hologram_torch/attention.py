# hologram_torch/attention.py: hologram::sdpa, scaled dot product attention that stays one operator
import torch
from torch.nn import functional

_library = torch.library.Library("hologram", "DEF")
_library.define(
    "sdpa(Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, float scale, bool grouped, "
    "float softcap=0.0) -> Tensor"
)


def _run(query, key, value, mask, causal, scale, grouped, softcap):
    if softcap:
        return _forward(query, key, value, mask, causal, scale, grouped, softcap)
    if mask is not None and mask.dtype not in (torch.bool, query.dtype):
        mask = mask.to(query.dtype)
    return functional.scaled_dot_product_attention(
        query, key, value, mask, 0.0, causal, scale=scale, enable_gqa=grouped
    )


@torch.library.impl(_library, "sdpa", "CompositeExplicitAutograd")
def sdpa(query, key, value, mask, causal, scale, grouped, softcap=0.0):
    """Scores are softcap * tanh(scores / softcap) before the mask where softcap is not 0."""
    out = _run(query, key, value, mask, causal, scale, grouped, softcap)
    return out.clone() if out._is_view() and out._base is query else out


@torch.library.impl(_library, "sdpa", "Meta")
def sdpa_meta(query, key, value, mask, causal, scale, grouped, softcap=0.0):
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
    query, key, value, mask, *choices = inputs
    ctx.save_for_backward(query, key, value, mask, output)
    ctx.choices = choices


def _wide(t, repeats, dtype):
    t = t.to(dtype)
    return t.repeat_interleave(repeats, -3) if repeats > 1 else t


def _probabilities(q, k, mask, causal, scale, softcap):
    """Probabilities, and the hyperbolic tangents of the scores (None without a cap)."""
    scores, tanh = q @ k.mT * scale, None
    if softcap:
        tanh = torch.tanh(scores / softcap)
        scores = softcap * tanh
    if causal:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(keep.logical_not(), float("-inf"))
    if mask is not None:
        hidden = mask.logical_not() if mask.dtype == torch.bool else None
        scores = scores + mask.to(q.dtype) if hidden is None else scores.masked_fill(hidden, float("-inf"))
    return torch.ops.aten._safe_softmax(scores, -1), tanh


def _forward(query, key, value, mask, causal, scale, grouped, softcap):
    wide = torch.promote_types(query.dtype, torch.float32)
    repeats = query.shape[-3] // key.shape[-3] if grouped else 1
    p, _ = _probabilities(query.to(wide), _wide(key, repeats, wide), mask, causal, scale, softcap)
    return (p @ _wide(value, repeats, wide)).to(query.dtype)


def _backward(ctx, gradient):
    """Recomputes the probabilities; a row's sum of gradient * output replaces the sum over keys."""
    query, key, value, mask, output = ctx.saved_tensors
    causal, scale, grouped, softcap = ctx.choices
    wide = torch.promote_types(query.dtype, torch.float32)
    repeats = query.shape[-3] // key.shape[-3] if grouped else 1
    q, out, g = (t.to(wide) for t in (query, output, gradient))
    k, v = _wide(key, repeats, wide), _wide(value, repeats, wide)
    p, tanh = _probabilities(q, k, mask, causal, scale, softcap)
    grad_v = p.mT @ g
    ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) * scale
    if tanh is not None:
        ds = ds * (1 - tanh * tanh)
    grads = [ds @ k, ds.mT @ q, grad_v]
    if grouped:
        for i in (1, 2):
            heads = (*key.shape[:-2], query.shape[-3] // key.shape[-3])
            grads[i] = grads[i].reshape(*heads, *grads[i].shape[-2:]).sum(-3)
    like = (query, key, value)
    grads = [x.sum_to_size(t.shape).to(t.dtype) for x, t in zip(grads, like, strict=True)]
    return (*grads, None, None, None, None, None)


torch.library.register_autograd("hologram::sdpa", _backward, setup_context=_setup)
