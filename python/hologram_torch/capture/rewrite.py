# hologram_torch/capture/rewrite.py: changes to Dynamo's graph before autograd sees it
from unittest import mock

import torch
from torch.nn import functional

from .. import runtimes
from . import attention, plain_attention, recurrent, resize  # noqa: F401  (registers hologram::sdpa)

_SDPA, _PAD = torch._C._nn.scaled_dot_product_attention, torch._C._nn.pad
_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def dynamo_graph(module) -> None:
    """Rewrites in place; nested modules (regions, branches) too."""
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            changed = [node for node in part.graph.nodes if node.target in _REWRITES and _REWRITES[node.target](node)]
            if changed:
                part.recompile()


def _example(node):
    return node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None


def _choice(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """(causal, scale, grouped) of hologram::sdpa where that has the same meaning, else None."""
    if not all(isinstance(t, torch.Tensor) and runtimes.attends(t) and t.dtype in _DTYPES for t in (q, k, v)):
        return None
    if any(t.is_nested or t.dim() < 3 or t.dim() != q.dim() or t.dtype != q.dtype for t in (q, k, v)):
        return None
    if dropout_p != 0.0 or not isinstance(is_causal, bool):
        return None
    if attn_mask is not None and (not isinstance(attn_mask, torch.Tensor) or is_causal):
        return None
    if attn_mask is not None and attn_mask.requires_grad and q.dtype in (torch.float32, torch.float64):
        return None  # kept scores cost less than computing them again
    # One head of keys and values broadcasts to the query's heads as a group of them does.
    grouped = bool(enable_gqa) or (k.shape[-3] == v.shape[-3] == 1 and q.shape[-3] != 1)
    if not grouped and not (q.shape[-3] == k.shape[-3] == v.shape[-3]):
        return None
    if scale is None:
        if not isinstance(q.shape[-1], int) or q.shape[-1] == 0:
            return None
        scale = q.shape[-1] ** -0.5
    if not isinstance(scale, (int, float)):
        return None
    return is_causal, float(scale), grouped


def _sdpa(node) -> bool:
    """Replaces scaled_dot_product_attention by hologram::sdpa."""
    given = dict(zip(_NAMES, node.args)) | dict(node.kwargs)
    tensors = [given.get(name) for name in _NAMES[:4]]
    mask = tensors[3]
    if mask is not None and _example(mask) is None:
        return False
    rest = {name: value for name, value in given.items() if name not in _NAMES[:4]}
    choice = _choice(*map(_example, tensors), **rest)
    if choice is None:
        return False
    node.target = torch.ops.hologram.sdpa.default
    node.args = (*tensors, *choice)
    node.kwargs = {}
    return True


def _attend(query, key, value, attn_mask=None, *rest, **named):
    named |= dict(zip(_NAMES[4:], rest))
    choice = _choice(query, key, value, attn_mask, **named)
    if choice is None:
        return _SDPA(query, key, value, attn_mask, **named)
    return torch.ops.hologram.sdpa(query, key, value, attn_mask, *choice)


def _multi_head(*args, **kwargs):
    """torch.nn.functional.multi_head_attention_forward, which Dynamo keeps whole, with our attention inside."""
    with mock.patch.object(functional, "scaled_dot_product_attention", _attend):
        return functional.multi_head_attention_forward(*args, **kwargs)


def _whole_attention(node) -> bool:
    node.target = _multi_head
    return True


def circular(x, pad):
    """x with the other end's elements before and behind its last axes; eager's result is contiguous whatever x is."""
    with torch.autocast(x.device.type, enabled=False):  # which has a say in what torch.cat gives
        for axis, low, high in zip(range(x.dim() - 1, 1, -1), pad[::2], pad[1::2]):
            n = x.shape[axis]
            x = torch.cat([x.narrow(axis, n - low, low), x, x.narrow(axis, 0, high)], axis)
        return x.contiguous()


def _is_circular(x, pad, mode) -> bool:
    if mode != "circular" or not isinstance(x, torch.Tensor) or not runtimes.holds(x) or len(pad) != 2 * x.dim() - 4:
        return False
    sizes = [n for n in reversed(x.shape[2:]) for _ in range(2)]
    return any(pad) and all(type(count) is type(n) is int and 0 <= count <= n for count, n in zip(pad, sizes))


def _pad(node) -> bool:
    """Circular padding is a concatenation for each axis: PyTorch copies part after part into one tensor."""
    given = dict(zip(("input", "pad", "mode"), node.args)) | dict(node.kwargs)
    if not _is_circular(_example(given.get("input")), given.get("pad"), given.get("mode")):
        return False
    node.target, node.args, node.kwargs = circular, (given["input"], given["pad"]), {}
    return True


def padded(input, pad, mode="constant", value=None):
    """torch._C._nn.pad, likewise."""
    return circular(input, pad) if _is_circular(input, pad, mode) else _PAD(input, pad, mode, value)


def _recurrent(function):
    def rewrite(node) -> bool:
        """Replaces a layer over a plain tensor; packed sequences (a tensor of batch sizes second) stay."""
        hidden = node.args[1] if len(node.args) == 9 and not node.kwargs else None
        if isinstance(hidden, (list, tuple)) != (function is recurrent.lstm) or isinstance(node.args[2], torch.fx.Node):
            return False
        if not recurrent.same_kind([_example(a) for a in (node.args[0], *node.args[2])]):
            return False
        node.target = function
        return True

    return rewrite


def _flex(node) -> bool:
    try:
        from . import flex  # what it imports takes time
    except ImportError:  # a version of PyTorch without it, or with other insides
        return False
    return flex.rewrite(node)


_REWRITES = {
    _SDPA: _sdpa,
    functional.multi_head_attention_forward: _whole_attention,
    functional.interpolate: resize.rewrite,
    _PAD: _pad,
}
if hasattr(torch.ops.higher_order, "flex_attention"):
    _REWRITES[torch.ops.higher_order.flex_attention] = _flex
for _target in plain_attention.MATMUL:
    _REWRITES[_target] = plain_attention.rewrite
for _module in (torch, torch._VF):
    for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        _REWRITES[getattr(_module, _name)] = _recurrent(getattr(recurrent, _name))
