# hologram/_generic.py: what hologram.ops does on other dtypes than float32
"""Reductions, losses, softmax, products and scalars on any dtype, as compiled graphs (called by hologram._core)."""

from typing import Any

import numpy as np

from hologram._jit import jit


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


def _squares(p: Any, t: Any) -> Any:
    return np.mean((p - t) ** 2)


def _cross_entropy(p: Any, t: Any) -> Any:
    return -np.mean(np.where(t == 0, 0, t * np.log(p)))


def _binary_cross_entropy(p: Any, t: Any) -> Any:
    return -np.mean(t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log1p(-p), -100))


def _same(function: Any) -> Any:
    """The function with results of its first operand's dtype, as their buffer has."""
    return jit(lambda x, *rest: function(x, *rest).astype(x.dtype))


def _loss(function: Any) -> Any:
    """(the number as NumPy has it, as the buffer has it): a mean of integers is none."""

    def both(p: Any, t: Any) -> Any:
        mean = function(p, t)
        return mean.astype(np.float64), mean.astype(p.dtype)

    return jit(both)


_FUNCTIONS = {
    "vector_clip": _same(lambda x, low, high: np.minimum(np.maximum(x, low), high)),
    "scalar_add": _same(lambda x, s: x + s),
    "scalar_mul": _same(lambda x, s: x * s),
    "softmax": _same(_softmax),
    "reduce_sum": _same(lambda x: x.sum(dtype=x.dtype)),
    "reduce_min": _same(lambda x: x.min()),
    "reduce_max": _same(lambda x: x.max()),
    "mse_loss": _loss(_squares),
    "cross_entropy_loss": _loss(_cross_entropy),
    "binary_cross_entropy_loss": _loss(_binary_cross_entropy),
    "gemm": _same(lambda a, b, m, n, k: (a[: m * k].reshape(m, k) @ b[: k * n].reshape(k, n)).reshape(m * n)),
    "matvec": _same(lambda a, x, m, n: a[: m * n].reshape(m, n) @ x[:n]),
}
_READS = {"mse_loss": 2, "cross_entropy_loss": 2, "binary_cross_entropy_loss": 2, "gemm": 2, "matvec": 2}


def run(name: str, executor: Any, *arguments: Any) -> Any:
    """One call: operands, the result's buffer, numbers, and for all but products the number of elements or None."""
    reads = _READS.get(name, 1)
    operands, out, rest = arguments[:reads], arguments[reads], list(arguments[reads + 1 :])
    for position, buffer in enumerate([*operands, out]):
        if buffer.executor is not executor:
            raise ValueError(f"{name}: buffer {position} belongs to another executor")
        if buffer.dtype != out.dtype:
            raise ValueError(f"{name}: buffer {position} is {buffer.dtype}, the result's {out.dtype}")
    if name in ("gemm", "matvec"):
        m, n = rest[0], rest[1]
        k = rest[2] if name == "gemm" else None
        needed = [m * k, k * n, m * n] if k is not None else [m * n, n, m]
        if 0 in rest:
            raise ValueError(f"{name}: no dimension may be 0, got {', '.join(f'{d} = {v}' for d, v in zip('mnk', rest))}")
        for position, (buffer, count) in enumerate(zip([*operands, out], needed)):
            if buffer.size < count:
                raise ValueError(f"{name}: buffer {position} has {buffer.size} elements, {count} are needed")
        _FUNCTIONS[name](*operands, *rest, out=_first(out, needed[-1]))
        return None
    scalar = name.startswith("reduce") or name.endswith("loss")
    count = rest.pop() if rest else None
    count = (operands[0] if scalar else out).size if count is None else count
    for position, buffer in enumerate(operands if scalar else [*operands, out]):
        if buffer.size < count:
            raise ValueError(f"{name}: buffer {position} has {buffer.size} elements, {count} are needed")
    if name == "vector_clip" and not rest[0] <= rest[1]:
        raise ValueError(f"vector_clip: low must not exceed high, got {rest[0]} and {rest[1]}")
    if count == 0 and name.endswith("loss"):
        raise ValueError(f"{name}: the mean of nothing is not defined; n is 0")
    views = [_first(buffer, count) for buffer in operands]
    if count == 0 and not scalar:
        return None
    place = _first(out, 1 if scalar else count)
    if name.endswith("loss"):
        number = np.empty((), np.float64)
        _FUNCTIONS[name](*views, *rest, out=(number, place))
        return number.item()
    _FUNCTIONS[name](*views, *rest, out=place)
    return place[0] if scalar else None


def _first(buffer: Any, count: int) -> Any:
    return buffer if buffer.size == count else buffer[:count]
