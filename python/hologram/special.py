# hologram/special.py: functions that NumPy lacks, for traced functions and for arrays
"""erf, sigmoid, gelu and their like: inside `hologram.jit` part of the graph, outside of it one kernel on an array."""

from typing import Any

from hologram._jit import jit
from hologram.trace import Array, TraceError

__all__ = ["cbrt", "digamma", "erf", "erfc", "erfinv", "gelu", "lgamma", "relu", "rsqrt", "sigmoid"]

_FLOATS = ("f16", "bf16", "f32", "f64")


def _apply(op: str, x: Any) -> Array:
    if not isinstance(x, Array):
        raise TraceError(f"hologram.special.{op}: expected an array")
    if x.value.dtype not in _FLOATS:
        x = x.astype("float64")
    return x.make(x.tracer.graph.elementwise(op, [x.value]))


def _function(op: str, about: str) -> Any:
    alone = jit(lambda x: _apply(op, x))

    def function(x: Any) -> Any:
        return _apply(op, x) if isinstance(x, Array) else alone(x)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"{about}. Element by element, in the array's own float dtype; integers give float64."
    return function


erf = _function("erf", "Error function")
erfc = _function("erfc", "1 - erf(x)")
erfinv = _function("erfinv", "Inverse of erf")
lgamma = _function("lgamma", "log |gamma(x)|")
digamma = _function("digamma", "Derivative of lgamma")
sigmoid = _function("sigmoid", "1 / (1 + exp(-x))")
gelu = _function("gelu", "x (1 + erf(x / sqrt 2)) / 2")
rsqrt = _function("rsqrt", "1 / sqrt(x)")
cbrt = _function("cbrt", "Cube root")


def relu(x: Any) -> Any:
    """max(x, 0); NaN stays."""
    return _relu(x) if not isinstance(x, Array) else _positive(x)


def _positive(x: Any) -> Any:
    import numpy as np

    return np.maximum(x, 0)


_relu = jit(_positive)
