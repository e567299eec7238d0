# hologram_torch/capture/plain_attention.py: attention written in plain operations as hologram::sdpa
"""softmax(cap(q @ k * scale) + bias) @ v with the cap c * tanh(x / c) (or none), as models write it that do not call
scaled_dot_product_attention. Only in float32 and float64: below that, every plain operation rounds its result."""

import operator

import torch
from torch.nn import functional

from .. import runtimes

MATMUL = (torch.matmul, operator.matmul, torch.bmm, torch.Tensor.matmul, "matmul", "bmm")
_MUL = (operator.mul, torch.mul, torch.multiply, "mul")
_DIV = (operator.truediv, torch.div, torch.true_divide, "div")
_ADD = (operator.add, torch.add, "add")
_TANH = (torch.tanh, functional.tanh, "tanh")
_SOFTMAX = (functional.softmax, torch.softmax, "softmax")
_IN_PLACE = ("setitem", "iadd", "isub", "imul", "itruediv", "ipow")
_SAME = ("to", "float", "double", "type_as", "contiguous")


def rewrite(node) -> bool:
    """In Dynamo's graph: `node` is a matrix product; replaces it where its left operand is such a softmax."""
    found = _match(node)
    if found is None:
        return False
    query, key, value, mask, scale, cap = found

    def attend(query, key, value, mask):
        key = key.mT
        if mask is None:
            return torch.ops.hologram.sdpa(query, key, value, None, False, scale, False, cap)
        out, lse = torch.ops.hologram.sdpa_lse(query, key, value, mask, False, scale, False, cap)
        # A plain softmax over nothing but -inf is NaN.
        return out.masked_fill((lse == float("-inf")).unsqueeze(-1), float("nan"))

    node.op, node.target = "call_function", attend
    node.args, node.kwargs = (query, key, value, mask), {}
    return True


def _match(node):
    """(query, transposed key, value, bias, scale, cap), or None."""
    if len(node.args) != 2 or node.kwargs:
        return None
    x, value = node.args
    softmax = _softmax_below(x)
    if softmax is None or not _plain(value):
        return None
    scores, mask = _sole(softmax.args[0]), None
    if scores is not None and scores.target in _ADD and len(scores.args) == 2 and not scores.kwargs:
        # The scores are what is computed from a product.
        sides = [(a, b) for a, b in (scores.args, scores.args[::-1]) if _score(_sole(a)) is not None]
        if not sides:
            return None
        scores, mask = _sole(sides[0][0]), sides[0][1]
    found = _score(scores)
    if found is None:
        return None
    query, key, scale, cap = found
    q, k, v = (_example(t) for t in (query, key, value))
    if not (q.dtype == k.dtype == v.dtype and q.dtype in (torch.float32, torch.float64)):
        return None
    if not (q.dim() == k.dim() == v.dim() >= 3 and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]):
        return None
    if mask is not None:
        m = _example(mask)
        if not _plain(mask) or m.requires_grad or m.dtype != q.dtype or m.dim() > q.dim() or m.dim() < 1:
            return None
        want = (*q.shape[:-1], k.shape[-1])[q.dim() - m.dim() :]
        if any(a != b and a != 1 for a, b in zip(m.shape, want, strict=True)):
            return None
    return None if _writes_between(query, key, node) else (query, key, value, mask, scale, cap)


def _writes_between(query, key, end) -> bool:
    """Whether something is written in place behind both operands of the first product: it might be one of them."""
    nodes = list(end.graph.nodes)
    begin = max(nodes.index(query), nodes.index(key))
    for node in nodes[begin : nodes.index(end)]:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if name in _IN_PLACE or (name.endswith("_") and not name.endswith("__")):
            return True
    return False


def _softmax_below(x):
    """The softmax over the last axis that x is, through dropout that does nothing and casts to the same dtype."""
    while (x := _sole(x)) is not None:
        if x.target in _SOFTMAX:
            given = dict(zip(("input", "dim", "_stacklevel", "dtype"), x.args)) | dict(x.kwargs)
            if x.target is not functional.softmax:
                given = dict(zip(("input", "dim", "dtype"), x.args)) | dict(x.kwargs)
            source = _example(x.args[0]) if x.args else None
            if source is None or given.get("dtype") not in (None, source.dtype):
                return None
            return x if given.get("dim") in (-1, source.dim() - 1) else None
        source = _example(x.args[0]) if x.args else None
        if source is None:
            return None
        if x.target is functional.dropout:
            given = dict(zip(("input", "p", "training"), x.args)) | dict(x.kwargs)
            if given.get("training", True) and given.get("p", 0.5) != 0:
                return None
        elif x.target not in _SAME or _example(x).dtype != source.dtype or _example(x).device != source.device:
            return None
        x = x.args[0]
    return None


def _score(x):
    """(query, transposed key, scale, cap) of cap * tanh(q @ k * scale / cap), or of q @ k * scale (cap 0)."""
    if x is None:
        return None
    body, cap = _number(x, _MUL)
    if cap is not None and cap > 0 and (tanh := _sole(body)) is not None and tanh.target in _TANH:
        inner, divisor = _number(_sole(tanh.args[0]), _DIV)
        if divisor is None:
            inner, factor = _number(_sole(tanh.args[0]), _MUL)
            divisor = None if factor is None or factor == 0 else 1 / factor
        if divisor is None or abs(divisor - cap) > 1e-12 * cap:
            return None
        found = _scaled(_sole(inner))
        return found and (*found, float(cap))
    found = _scaled(x)
    return found and (*found, 0.0)


def _scaled(x):
    scale = 1.0
    while x is not None:
        if x.target in MATMUL and len(x.args) == 2 and not x.kwargs:
            return (*x.args, scale) if all(_plain(a) for a in x.args) else None
        inner, factor = _number(x, _MUL)
        if factor is None:
            inner, divisor = _number(x, _DIV)
            factor = 1 / divisor if divisor else None
        if factor is None:
            return None
        scale *= factor
        x = _sole(inner)
    return None


def _number(x, targets):
    """(the tensor, the number) of an operation on both; a number divides, and is not divided."""
    if x is not None and x.target in targets and len(x.args) == 2 and not x.kwargs:
        a, b = x.args
        if isinstance(b, (int, float)):
            return a, float(b)
        if isinstance(a, (int, float)) and targets is _MUL:
            return b, float(a)
    return None, None


def _example(node):
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _plain(node) -> bool:
    value = _example(node)
    return value is not None and runtimes.attends(value) and value.layout is torch.strided


def _sole(node):
    """The node, if it is computed and nothing else uses it."""
    if isinstance(node, torch.fx.Node) and node.op in ("call_function", "call_method") and len(node.users) == 1:
        return node if _example(node) is not None else None
    return None
