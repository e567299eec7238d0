# hologram_torch/rewrite.py: changes to Dynamo's graph before autograd sees it
import torch

from . import attention, recurrent  # noqa: F401  (registers hologram::sdpa)

_SDPA = torch._C._nn.scaled_dot_product_attention
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


def _sdpa(node) -> bool:
    """Replaces scaled_dot_product_attention by hologram::sdpa where that has the same meaning."""
    given = dict(zip(_NAMES, node.args)) | dict(node.kwargs)
    q, k, v = (_example(given.get(name)) for name in _NAMES[:3])
    if not all(isinstance(t, torch.Tensor) and t.device.type == "cpu" and t.dtype in _DTYPES for t in (q, k, v)):
        return False
    if any(t.is_nested or t.dim() < 3 or t.dim() != q.dim() or t.dtype != q.dtype for t in (q, k, v)):
        return False
    if given.get("dropout_p", 0.0) != 0.0 or not isinstance(given.get("is_causal", False), bool):
        return False
    mask, grouped = given.get("attn_mask"), bool(given.get("enable_gqa", False))
    bias = _example(mask)
    if mask is not None and (not isinstance(bias, torch.Tensor) or bias.requires_grad or given.get("is_causal")):
        return False
    if not grouped and not (q.shape[-3] == k.shape[-3] == v.shape[-3]):
        return False
    scale = given.get("scale")
    if scale is None:
        if not isinstance(q.shape[-1], int):
            return False
        scale = q.shape[-1] ** -0.5
    if not isinstance(scale, (int, float)):
        return False
    node.target = torch.ops.hologram.sdpa.default
    node.args = (*(given[name] for name in _NAMES[:3]), mask, given.get("is_causal", False), float(scale), grouped)
    node.kwargs = {}
    return True


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


_REWRITES = {_SDPA: _sdpa}
for _module in (torch, torch._VF):
    for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        _REWRITES[getattr(_module, _name)] = _recurrent(getattr(recurrent, _name))
