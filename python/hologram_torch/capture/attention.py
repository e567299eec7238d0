# hologram_torch/capture/attention.py: hologram::sdpa, scaled dot product attention that stays one operator, and its gradients
import torch
from torch.nn import functional

_library = torch.library.Library("hologram", "DEF")
_CHOICES = "bool causal, float scale, bool grouped, float softcap=0.0"
_library.define(f"sdpa(Tensor query, Tensor key, Tensor value, Tensor? mask, {_CHOICES}) -> Tensor")
_library.define(f"sdpa_lse(Tensor query, Tensor key, Tensor value, Tensor? mask, {_CHOICES}) -> (Tensor, Tensor)")
_library.define(
    "sdpa_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor output, Tensor lse, "
    f"{_CHOICES}) -> (Tensor, Tensor, Tensor)"
)
_library.define(
    "sdpa_bias_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor mask, Tensor output, Tensor lse, "
    f"{_CHOICES}) -> (Tensor, Tensor, Tensor, Tensor)"
)
_ops = torch.ops.hologram


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
    _agree(query, key, value, mask)
    if query.dim() == 4 and _is_flash(query, key, value, mask):
        return torch.empty_like(query)
    return query.new_empty((*_lead(query, key, value, grouped), query.shape[-2], value.shape[-1]))


def _agree(query, key, value, mask):
    """Sizes that the operator has equal become equal in the graph, where they had symbols of their own."""
    keys, queries = key.shape[-2], query.shape[-2]
    torch._check(keys == value.shape[-2], lambda: f"attention: {keys} keys and {value.shape[-2]} values")
    sizes = () if mask is None else zip(mask.shape[::-1], (keys, queries))
    for have, wanted in sizes:
        torch._check(have == 1 or have == wanted, lambda: f"attention: a mask {tuple(mask.shape)} for {queries} queries and {keys} keys")


def _is_flash(query, key, value, mask) -> bool:
    if query.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        return False
    same = query.shape[0] == key.shape[0] == value.shape[0] and query.shape[-1] == value.shape[-1]
    dense = query.stride(-1) == key.stride(-1) == value.stride(-1) == 1 and query.shape[-2] != 0 and key.shape[-2] != 0
    return same and dense and (mask is None or not mask.requires_grad)


def _lead(query, key, value, grouped):
    if grouped:
        return tuple(query.shape[:-2])
    return tuple(torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2]))


@torch.library.impl(_library, "sdpa", "Autograd")
def sdpa_autograd(query, key, value, *rest):
    """Where gradients will be asked for, the log-sum-exp of each row is kept for them."""
    inputs = (query, key, value, rest[0])
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs):
        return _ops.sdpa_lse(query, key, value, *rest)[0]
    with torch._C._AutoDispatchBelowAutograd():
        return _ops.sdpa(query, key, value, *rest)


def _autocast(device):
    """scaled_dot_product_attention is of those operators whose floats autocast narrows."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device.upper()}"))

    def sdpa_autocast(*args, **named):
        dtype = torch.get_autocast_dtype(device)
        narrow = lambda t: t.is_floating_point() and t.dtype != torch.float64 and t.device.type == device
        args = [t.to(dtype) if isinstance(t, torch.Tensor) and narrow(t) else t for t in args]
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return _ops.sdpa(*args, **named)

    return sdpa_autocast


for _device in ("cpu", "cuda"):
    _library.impl("sdpa", _autocast(_device), f"Autocast{_device.upper()}")


@torch.library.impl(_library, "sdpa_lse", "CompositeExplicitAutograd")
def sdpa_lse(query, key, value, mask, causal, scale, grouped, softcap=0.0):
    """sdpa, and log(sum(exp(scores))) over the keys in float32 or float64; -inf for rows that see no key."""
    q, k, _ = _widened(query, key, value, grouped)
    scores, _ = _scores(q, k, mask, causal, scale, softcap)
    return sdpa(query, key, value, mask, causal, scale, grouped, softcap), scores.logsumexp(-1)


@torch.library.impl(_library, "sdpa_lse", "Meta")
def sdpa_lse_meta(query, key, value, mask, causal, scale, grouped, softcap=0.0):
    out = sdpa_meta(query, key, value, mask, causal, scale, grouped, softcap)
    return out, out.new_empty(out.shape[:-1], dtype=torch.promote_types(query.dtype, torch.float32))


@torch.library.impl(_library, "sdpa_backward", "Meta")
def sdpa_backward_meta(gradient, query, key, value, *rest):
    return tuple(t.new_empty(t.shape) for t in (query, key, value))


@torch.library.impl(_library, "sdpa_bias_backward", "Meta")
def sdpa_bias_backward_meta(gradient, query, key, value, mask, *rest):
    return tuple(t.new_empty(t.shape) for t in (query, key, value, mask))


def _setup(ctx, inputs, output):
    query, key, value, mask, *choices = inputs
    ctx.save_for_backward(query, key, value, mask, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.choices = choices


def _backward(ctx, gradient, _):
    if ctx.needs_input_grad[3]:  # a bias that is learned
        return (*_ops.sdpa_bias_backward(gradient, *ctx.saved_tensors, *ctx.choices), None, None, None, None)
    return (*_ops.sdpa_backward(gradient, *ctx.saved_tensors, *ctx.choices), None, None, None, None, None)


def _wide(t, repeats, dtype):
    t = t.to(dtype)
    return t.repeat_interleave(repeats, -3) if repeats > 1 else t


def _widened(query, key, value, grouped):
    wide = torch.promote_types(query.dtype, torch.float32)
    repeats = query.shape[-3] // key.shape[-3] if grouped else 1
    return query.to(wide), _wide(key, repeats, wide), _wide(value, repeats, wide)


def _scores(q, k, mask, causal, scale, softcap):
    """Scores, and their hyperbolic tangents (None without a cap)."""
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
    return scores, tanh


def _forward(query, key, value, mask, causal, scale, grouped, softcap):
    q, k, v = _widened(query, key, value, grouped)
    scores, _ = _scores(q, k, mask, causal, scale, softcap)
    return (torch.ops.aten._safe_softmax(scores, -1) @ v).to(query.dtype)


def _gradients(gradient, query, key, value, mask, output, lse, causal, scale, grouped, softcap):
    """Gradients of query, key, value and the scores after the cap. A row's sum of gradient * output replaces the sum over
    keys."""
    q, k, v = _widened(query, key, value, grouped)
    g, out = gradient.to(q.dtype), output.to(q.dtype)
    scores, tanh = _scores(q, k, mask, causal, scale, softcap)
    p = (scores - lse.masked_fill(lse == float("-inf"), float("inf")).unsqueeze(-1)).exp()
    bias = p * (g @ v.mT - (g * out).sum(-1, keepdim=True))
    ds = bias * scale
    if tanh is not None:
        ds = ds * (1 - tanh * tanh)
    grads = [ds @ k, ds.mT @ q, p.mT @ g]
    if grouped:
        for i in (1, 2):
            heads = (*key.shape[:-2], query.shape[-3] // key.shape[-3])
            grads[i] = grads[i].reshape(*heads, *grads[i].shape[-2:]).sum(-3)
    return *grads, bias


def _summed(grads, like):
    return tuple(x.sum_to_size(t.shape).to(t.dtype).contiguous() for x, t in zip(grads, like, strict=True))


@torch.library.impl(_library, "sdpa_backward", "CompositeExplicitAutograd")
def sdpa_backward(gradient, query, key, value, mask, output, lse, causal, scale, grouped, softcap=0.0):
    """Gradients of query, key and value."""
    grads = _gradients(gradient, query, key, value, mask, output, lse, causal, scale, grouped, softcap)
    return _summed(grads[:3], (query, key, value))


@torch.library.impl(_library, "sdpa_bias_backward", "CompositeExplicitAutograd")
def sdpa_bias_backward(gradient, query, key, value, mask, output, lse, causal, scale, grouped, softcap=0.0):
    """Gradients of query, key, value and the additive mask."""
    grads = _gradients(gradient, query, key, value, mask, output, lse, causal, scale, grouped, softcap)
    return _summed(grads, (query, key, value, mask))


torch.library.register_autograd("hologram::sdpa_lse", _backward, setup_context=_setup)
