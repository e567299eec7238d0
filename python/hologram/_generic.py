# hologram/_generic.py: what hologram.ops does on other dtypes than float32
"""Reductions, losses, softmax, products and scalars on any dtype, as compiled graphs (called by hologram._core)."""

from typing import Any

import numpy as np

from hologram._jit import jit


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


def _cross_entropy(p: Any, t: Any) -> Any:
    return -np.mean(np.where(t == 0, 0, t * np.log(p)))


def _binary_cross_entropy(p: Any, t: Any) -> Any:
    return -np.mean(t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log1p(-p), -100))


_FUNCTIONS = {
    "vector_clip": jit(lambda x, low, high: np.minimum(np.maximum(x, low), high)),
    "scalar_add": jit(lambda x, s: x + s),
    "scalar_mul": jit(lambda x, s: x * s),
    "softmax": jit(_softmax),
    "reduce_sum": jit(lambda x: x.sum(dtype=x.dtype)),
    "reduce_min": jit(lambda x: x.min()),
    "reduce_max": jit(lambda x: x.max()),
    "mse_loss": jit(lambda p, t: np.mean((p - t) ** 2)),
    "cross_entropy_loss": jit(_cross_entropy),
    "binary_cross_entropy_loss": jit(_binary_cross_entropy),
    "gemm": jit(lambda a, b, m, n, k: (a[: m * k].reshape(m, k) @ b[: k * n].reshape(k, n)).reshape(m * n)),
    "matvec": jit(lambda a, x, m, n: a[: m * n].reshape(m, n) @ x[:n]),
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
        for position, (buffer, count) in enumerate(zip([*operands, out], needed)):
            if buffer.size < count:
                raise ValueError(f"{name}: buffer {position} has {buffer.size} elements, {count} are needed")
        result = _FUNCTIONS[name](*operands, *rest)
        out[: result.size].from_numpy(result)
        return None
    scalar = name.startswith("reduce") or name.endswith("loss")
    count = rest.pop() if rest else None
    count = (operands[0] if scalar else out).size if count is None else count
    for position, buffer in enumerate(operands if scalar else [*operands, out]):
        if buffer.size < count:
            raise ValueError(f"{name}: buffer {position} has {buffer.size} elements, {count} are needed")
    if name == "vector_clip" and not rest[0] <= rest[1]:
        raise ValueError(f"vector_clip: low must not exceed high, got {rest[0]} and {rest[1]}")
    views = [buffer if buffer.size == count else buffer[:count] for buffer in operands]
    if count == 0 and not scalar:
        return None
    result = _FUNCTIONS[name](*views, *rest)
    out[: 1 if scalar else count].from_numpy(np.asarray(result, out.dtype).reshape(-1))
    return result.item() if scalar else None
