# hologram/_products.py: einsum, tensordot, Kronecker and cross products and norms for hologram.jit
# mypy: disable-error-code="no-any-return,return-value"
"""Sums of products. A form that a function does not know is an error that names it."""

from typing import Any

import numpy as np

from hologram._operands import axes_of
from hologram._registry import FLOATS, FUNCTIONS, implements
from hologram._shapes import traced, unsupported
from hologram.trace import Array


def _sized(a: Array, order: list[int], groups: list[int]) -> Array:
    """The axes in that order, joined into groups of so many."""
    moved = a.transpose(order) if order != list(range(a.ndim)) else a
    shape, at = [], 0
    for count in groups:
        size: Any = 1
        for n in moved.shape[at : at + count]:
            size = size * n
        shape.append(size)
        at += count
    return moved.reshape(shape) if any(count != 1 for count in groups) else moved


@implements("tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = traced(a, b)
    if isinstance(axes, (int, np.integer)):
        axes = (list(range(a.ndim - int(axes), a.ndim)), list(range(int(axes))))
    left, right = (list(x) if isinstance(x, (tuple, list)) else [x] for x in axes)
    left, right = [x % a.ndim for x in left], [x % b.ndim for x in right]
    if len(left) != len(right) or any(a.shape[i] != b.shape[j] for i, j in zip(left, right)):
        raise ValueError("shape-mismatch for sum")
    rest_a, rest_b = ([i for i in range(v.ndim) if i not in used] for v, used in ((a, left), (b, right)))
    x = _sized(a, rest_a + left, [len(rest_a), len(left)])
    y = _sized(b, right + rest_b, [len(right), len(rest_b)])
    return (x @ y).reshape([a.shape[i] for i in rest_a] + [b.shape[j] for j in rest_b])


# --- einsum


def _plain(a: Array, labels: str, kept: str) -> Any:
    """(the array, its labels) with a repeated label's diagonal taken and labels that nothing else needs summed."""
    for label in labels:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            a = FUNCTIONS[np.diagonal](a, 0, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    gone = tuple(i for i, label in enumerate(labels) if label not in kept)
    if gone:
        a = FUNCTIONS[np.sum](a, axis=gone, dtype=a.dtype)
    return a, "".join(label for label in labels if label in kept)


def _spread(a: Array, labels: str, wanted: str) -> Array:
    """The axes as in `wanted`, with 1 for labels that it has not."""
    moved = a.transpose([labels.index(label) for label in wanted if label in labels]) if labels else a
    sizes = iter(moved.shape)
    return moved.reshape([next(sizes) if label in labels else 1 for label in wanted])


def _pair(a: Array, la: str, b: Array, lb: str, kept: str) -> Any:
    """The product of two, summed over labels that nothing else needs."""
    summed = [label for label in la if label in lb and label not in kept]
    both = [label for label in la if label in lb and label in kept]
    free_a, free_b = [x for x in la if x not in lb], [x for x in lb if x not in la]
    if any(a.shape[la.index(x)] != b.shape[lb.index(x)] for x in summed + both):
        return None
    labels = "".join(both + free_a + free_b)
    if not summed or (both and not (free_a and free_b)):
        wide = labels + "".join(summed)
        product = _spread(a, la, wide) * _spread(b, lb, wide)
        gone = tuple(range(len(labels), len(wide)))
        return (np.sum(product, axis=gone, dtype=product.dtype) if gone else product), labels
    x = _sized(a, [la.index(v) for v in both + free_a + summed], [1] * len(both) + [len(free_a), len(summed)])
    y = _sized(b, [lb.index(v) for v in both + summed + free_b], [1] * len(both) + [len(summed), len(free_b)])
    shape = [a.shape[la.index(v)] for v in both + free_a] + [b.shape[lb.index(v)] for v in free_b]
    return (x @ y).reshape(shape), labels


@implements("einsum")
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **options: Any) -> Any:
    if not operands or not isinstance(operands[0], str) or "." in operands[0] or options or out is not None:
        raise unsupported("einsum")
    text = operands[0].replace(" ", "")
    arrays = traced(*operands[1:])
    terms, _, result = text.partition("->")
    labels = terms.split(",")
    if "->" not in text:
        result = "".join(sorted(x for x in set(terms) if x != "," and terms.count(x) == 1))
    if len(labels) != len(arrays) or any(len(names) != a.ndim for names, a in zip(labels, arrays)):
        raise ValueError(f"einsum: {operands[0]!r} is not for operands of {[a.ndim for a in arrays]} dimensions")
    dtype = np.result_type(*[a.dtype for a in arrays])
    if dtype == np.bool_:
        raise unsupported("einsum")
    arrays = [a.astype(dtype) for a in arrays]

    def needed(i: int) -> str:
        return result + "".join(labels[i:])

    a, la = _plain(arrays[0], labels[0], needed(1))
    for i in range(1, len(arrays)):
        b, lb = _plain(arrays[i], labels[i], la + needed(i + 1))
        found: Any = _pair(a, la, b, lb, needed(i + 1))
        if found is None:  # a size of 1 stands for any
            raise unsupported("einsum")
        a, la = _plain(found[0], found[1], needed(i + 1))
    order = [la.index(label) for label in result]
    return a.transpose(order) if order != list(range(len(order))) else a.make(a.value)


@implements("kron")
def kron(a: Any, b: Any) -> Any:
    a, b = traced(a, b)
    rank = max(a.ndim, b.ndim)
    a, b = (v.reshape([1] * (rank - v.ndim) + list(v.shape)) for v in (a, b))
    wide = a.reshape([n for size in a.shape for n in (size, 1)]) * b.reshape([n for size in b.shape for n in (1, size)])
    return wide.reshape([n * m for n, m in zip(a.shape, b.shape)])


@implements("cross")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = traced(a, b)
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if not all(isinstance(v.shape[-1], int) or v.shape[-1].hint == 3 for v in (a, b)) or a.shape[-1] != 3 or b.shape[-1] != 3:
        raise unsupported("cross")
    x, y = ([v[..., i] for i in range(3)] for v in (a, b))
    parts = [x[i] * y[j] - x[j] * y[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.moveaxis(np.stack(parts, axis=-1), -1, axisc)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:  # noqa: A002
    x = x if x.value.dtype in FLOATS else x.astype(np.float64)
    axes = axes_of(axis, x.ndim)
    far = np.abs(x)
    at = tuple(axes)
    if ord is None or (ord == 2 and len(axes) == 1) or (ord == "fro" and len(axes) == 2):
        return np.sqrt(np.sum(x * x, at, keepdims=keepdims))
    if len(axes) == 1 and ord in (np.inf, -np.inf, 0, 1):
        if ord == 0:
            return np.sum((x != 0).astype(x.dtype), at, keepdims=keepdims)
        reduce: Any = {np.inf: np.max, -np.inf: np.min, 1: np.sum}[ord]
        return reduce(far, at, keepdims=keepdims)
    raise unsupported("norm")


FUNCTIONS[np.linalg.norm] = norm
