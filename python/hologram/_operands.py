# hologram/_operands.py: operands of traced functions: lifting, broadcasting, axes
# mypy: disable-error-code="no-any-return,return-value"
"""What the implementations of NumPy's functions share."""

from typing import Any

import numpy as np

from hologram.trace import Array, Dim, TraceError, Tracer


def check_broadcast(tracer: Tracer, shapes: list[Any]) -> None:
    """ValueError for shapes that do not go together, as NumPy's."""
    hints = [tuple(tracer_hint(tracer, n) for n in shape) for shape in shapes]
    np.broadcast_shapes(*hints)


def tracer_hint(tracer: Tracer, n: Any) -> int:
    return n if isinstance(n, int) else n.evaluate(tracer.hints)


def match(tracer: Tracer, nodes: list[Any]) -> list[Any]:
    """The nodes with sizes that are equal in this call made provably so."""
    shapes = [n.shape for n in nodes]
    if all(s == shapes[0] for s in shapes):
        return nodes
    shape = broadcast_shape(tracer, *shapes)
    return [n if all(isinstance(d, int) and d == 1 for d in n.shape) else aligned(tracer, n, shape) for n in nodes]


def aligned(tracer: Tracer, node: Any, shape: list[Any]) -> Any:
    lead = len(shape) - len(node.shape)
    sizes = [n if isinstance(n, int) and n == 1 else shape[lead + i] for i, n in enumerate(node.shape)]
    return tracer.graph.broadcast(tracer.settle(node, sizes), shape)


def broadcast_shape(tracer: Tracer, *shapes: Any) -> list[Any]:
    rank = max(map(len, shapes))
    out: list[Any] = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            have, whole = out[i], isinstance(n, int)
            if n is have or (whole and n == 1):
                continue
            if not (isinstance(have, int) and have == 1) and tracer.dim(have) != tracer.dim(n):
                raise ValueError(f"operands could not be broadcast together: {[tuple(map(str, s)) for s in shapes]}")
            if whole or (isinstance(have, int) and have == 1):
                out[i] = n
    return out


def tracer_of(*values: Any) -> Tracer:
    for v in values:
        if isinstance(v, (Array, Dim)):
            return v.tracer
        if isinstance(v, (list, tuple)):
            for x in v:
                if isinstance(x, (Array, Dim)):
                    return x.tracer
    raise TraceError("hologram.jit: no traced array among the arguments")


def lifted(tracer: Tracer, value: Any) -> Array:
    a = tracer.lift(value)
    if a is None:
        raise TraceError(f"hologram.jit: {type(value).__name__} cannot stand in an expression")
    return a


def boxed(array: Array) -> Array:
    """The array, as one of NumPy's where it might be a scalar."""
    array.boxed = True
    return array


def axes_of(axis: Any, rank: int) -> list[int]:
    if axis is None:
        return list(range(rank))
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    for a in axes:
        if not -rank <= a < rank:
            raise np.exceptions.AxisError(a, rank)
    return sorted(a % rank for a in axes)
