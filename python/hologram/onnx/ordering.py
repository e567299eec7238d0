# hologram/onnx/ordering.py: sorting
# mypy: ignore-errors
from hologram._graph import numel
from hologram.onnx.call import numbers
from hologram.onnx.table import operator


@operator("TopK", known=(1,))
def top_k(call, x, k=None):
    b, x = call.b, call.value(x)
    k = call.attr("k") if k is None else numbers(k)[0]
    rank = len(x.shape)
    axis = call.axis(rank, -1)
    order = [i for i in range(rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(rank)]
    moved = b.permute(x, order)
    lead, n = moved.shape[:-1], moved.shape[-1]
    rows = b.reshape(moved, [numel(lead), n])
    at = b.argsort(rows, 1, bool(call.attr("largest", 1)), getattr(k, "expr", k))
    values = b.take(rows, at, 1, batch=1)
    return tuple(b.permute(b.reshape(v, [*lead, k]), back) for v in (values, at))
