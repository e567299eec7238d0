# hologram_torch/capture/flex.py: torch.nn.attention.flex_attention as hologram::sdpa
import operator

import torch
from torch.nn.attention.flex_attention import _vmap_for_bhqkv

from .. import runtimes
from . import attention  # noqa: F401  (registers hologram::sdpa)

flex_attention = torch.ops.higher_order.flex_attention
_MUL = (operator.mul, torch.mul, torch.multiply)
_DIV = (operator.truediv, torch.div, torch.true_divide)
_TANH = (torch.tanh, torch.nn.functional.tanh)


def rewrite(node) -> bool:
    """In Dynamo's graph: replaces the operator where nothing but its first result is used."""
    used = [user.args[1] for user in node.users if user.target is operator.getitem]
    if len(used) != len(node.users) or any(i != 0 for i in used):
        return False
    q, k, v, score_mod, block_mask, scale, _options, *buffers = node.args
    if node.kwargs or not isinstance(scale, (int, float)) or not isinstance(q, torch.fx.Node):
        return False
    module = node.graph.owning_module
    score_graph, mask_graph = (module.get_submodule(m.target) for m in (score_mod, block_mask[-1]))
    score_buffers, mask_buffers = (*buffers, (), ())[:2]
    tensors = [t.meta.get("example_value") for t in (q, k, v)]
    if any(t is None or not runtimes.attends(t) for t in tensors):
        return False
    captured = [b.meta.get("example_value") for b in (*score_buffers, *mask_buffers) if isinstance(b, torch.fx.Node)]
    if any(t is None or isinstance(t, torch.Tensor) and t.requires_grad for t in captured):
        return False

    cap = _softcap(score_graph.graph)
    dense = cap is None

    def attend(q, k, v, score_buffers, mask_buffers):
        mask = None if _is_true(mask_graph.graph) else _masked(mask_graph, q, k, mask_buffers)
        if dense:
            return _dense(q, k, v, score_graph, mask, scale, score_buffers)
        grouped = q.shape[1] != k.shape[1]
        if q.shape[0] != k.shape[0]:
            k, v = (t.expand(q.shape[0], *t.shape[1:]) for t in (k, v))
        causal = mask is not None and _is_causal(mask_graph.graph)
        return torch.ops.hologram.sdpa(
            q, k, v, None if causal else mask, causal, float(scale), grouped, cap
        )

    with node.graph.inserting_before(node):
        out = node.graph.call_function(attend, (q, k, v, tuple(score_buffers), tuple(mask_buffers)))
    out.meta = {}
    for user in list(node.users):
        user.replace_all_uses_with(out)
        out.meta = dict(user.meta)
        node.graph.erase_node(user)
    node.graph.erase_node(node)
    return True


def _axes(q, k):
    sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return [torch.arange(n, device=q.device) for n in sizes]


def _masked(graph, q, k, buffers):
    """The mask, [batch or 1, heads or 1, queries, keys]."""
    axes = _axes(q, k)
    for i, place in enumerate(_inputs(graph.graph)[:2]):
        if not place.users:
            axes[i] = axes[i][:1]
    with _indexing():
        return _vmap_for_bhqkv(graph, prefix=(), suffix=(None,) * len(buffers))(*axes, *buffers)


def _dense(q, k, v, graph, mask, scale, buffers):
    """Any change of scores, on the whole matrix of them."""
    wide = torch.promote_types(q.dtype, torch.float32)
    repeats = q.shape[1] // k.shape[1]
    key, value = (t.to(wide).repeat_interleave(repeats, 1) for t in (k, v))
    scores = q.to(wide) @ key.mT * scale
    with _indexing():
        change = _vmap_for_bhqkv(graph, prefix=(0,), suffix=(None,) * len(buffers))
        scores = change(scores, *_axes(q, k), *buffers)
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    return (torch.ops.aten._safe_softmax(scores, -1) @ value).to(q.dtype)


def _indexing():
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    return TransformGetItemToIndex()


def _inputs(graph):
    return [n for n in graph.nodes if n.op == "placeholder"]


def _result(graph):
    value = next(n for n in graph.nodes if n.op == "output").args[0]
    return value[0] if isinstance(value, (list, tuple)) else value


def _softcap(graph):
    """c where the graph computes c * tanh(score / c), 0 where it gives the score, None for anything else."""
    score, result = _inputs(graph)[0], _result(graph)
    if result is score:
        return 0.0
    tanh, cap = _with_number(result, _MUL)
    if cap is None or not _calls(tanh, (*_TANH, "tanh")):
        return None
    inner = tanh.args[0]
    if isinstance(inner, torch.fx.Node) and inner.target in _DIV and inner.args[0] is score and inner.args[1] == cap:
        return float(cap) if cap > 0 else None
    return None


def _with_number(node, targets):
    """(the other operand, the number) of a binary operation with one number."""
    if isinstance(node, torch.fx.Node) and node.target in targets and len(node.args) == 2:
        for x, y in (node.args, node.args[::-1]):
            if isinstance(y, (int, float)) and isinstance(x, torch.fx.Node):
                return x, y
    return None, None


def _calls(node, targets):
    return isinstance(node, torch.fx.Node) and node.target in targets


def _is_true(graph):
    """The mask that hides nothing: create_block_mask's default."""
    result = _result(graph)
    return isinstance(result, torch.fx.Node) and result.target in ("new_ones", torch.ones) and not any(
        a for a in result.args[1:2] if a
    )


def _is_causal(graph):
    """query >= key"""
    result = _result(graph)
    if not isinstance(result, torch.fx.Node) or len(result.args) != 2:
        return False
    query, key = _inputs(graph)[2:4]
    ge = result.target in (operator.ge, torch.ge) and result.args == (query, key)
    return ge or (result.target in (operator.le, torch.le) and result.args == (key, query))
