# hologram/_indexed.py: np.r_, np.c_, np.mgrid and np.ogrid of traced values
# mypy: disable-error-code="no-any-return,return-value"
"""Makers of arrays that are indexed. Each function below takes the parts of the key, None where only NumPy knows it."""

import operator
from typing import Any, Callable, Optional

import numpy as np

from hologram._operands import lifted
from hologram._registry import HOOKS
from hologram.trace import Array, Dim


class Indexed:
    """One of them, as a traced function sees it."""

    def __init__(self, tracer: Any, original: Any, name: str) -> None:
        self._tracer, self._original, self._make, self._name = tracer, original, INDEXED[name], f"numpy.{name}"

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if any(_traced(part) for part in parts):
            made = self._make(self._tracer, parts, isinstance(key, tuple))
            if made is None:
                made = HOOKS["function"](self._tracer, operator.getitem, None, (self._original, key), {}, self._name)
            return made
        return self._original[_settled(key)]


def _traced(part: Any) -> bool:
    if isinstance(part, slice):
        return any(isinstance(v, (Array, Dim)) for v in (part.start, part.stop, part.step))
    if isinstance(part, (list, tuple)):
        return any(map(_traced, part))
    return isinstance(part, (Array, Dim))


def _settled(key: Any) -> Any:
    """Sizes as ints, which holds the graph for these sizes."""
    if isinstance(key, tuple):
        return tuple(map(_settled, key))
    if isinstance(key, slice):
        return slice(*(int(v) if isinstance(v, Dim) else v for v in (key.start, key.stop, key.step)))
    return int(key) if isinstance(key, Dim) else key


def _counted(tracer: Any, part: slice) -> Optional[Array]:
    """The whole numbers of a slice; None where its step is no positive constant."""
    start, step = (0 if part.start is None else part.start), (1 if part.step is None else part.step)
    whole = all(isinstance(v, (int, np.integer, Dim)) for v in (start, part.stop))
    if not whole or not isinstance(step, (int, np.integer)) or step <= 0:
        return None
    count = (part.stop - start + (int(step) - 1)) // int(step)
    count = count if count >= 0 else 0
    line = Array(tracer, tracer.graph.iota("i64", [getattr(count, "expr", count)], 0))
    return line * int(step) + start


def _joined(tracer: Any, parts: Any, _: bool, columns: bool = False) -> Optional[Array]:
    arrays = []
    for part in parts:
        if isinstance(part, str):
            return None
        a = _counted(tracer, part) if isinstance(part, slice) else np.stack(part) if isinstance(part, (list, tuple)) else part
        if a is None:
            return None
        a = lifted(tracer, a)
        a = a if a.ndim else a.reshape(1)
        arrays.append(a[:, None] if columns and a.ndim == 1 else a)
    return np.concatenate(arrays, axis=-1)


def _columns(tracer: Any, parts: Any, several: bool) -> Optional[Array]:
    return _joined(tracer, parts, several, columns=True)


def _open_grid(tracer: Any, parts: Any, several: bool) -> Any:
    lines = [_counted(tracer, part) if isinstance(part, slice) else None for part in parts]
    if any(line is None for line in lines):
        return None
    shaped = [line[(*[None] * i, slice(None), *[None] * (len(lines) - 1 - i))] for i, line in enumerate(lines)]  # type: ignore[index]
    return tuple(shaped) if several else shaped[0]


def _whole_grid(tracer: Any, parts: Any, several: bool) -> Any:
    lines = _open_grid(tracer, parts, several)
    return np.stack(np.broadcast_arrays(*lines)) if isinstance(lines, tuple) else lines


INDEXED: dict[str, Callable[..., Any]] = {"r_": _joined, "c_": _columns, "mgrid": _whole_grid, "ogrid": _open_grid}
