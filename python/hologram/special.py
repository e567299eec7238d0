# hologram/special.py: functions of one float, for traced functions and for arrays
"""erf, sigmoid, gelu, lgamma, … and those that NumPy has too: inside `hologram.jit` part of the graph, outside of it one kernel on
an array."""

from typing import Any

from hologram._jit import jit
from hologram._op_table import OPERATIONS, UNARY_FUNCTIONS
from hologram._ufuncs import call_function
from hologram.trace import Array

__all__ = sorted([*UNARY_FUNCTIONS, "relu"])


def _function(op: str, about: str) -> Any:
    alone = jit(lambda x: call_function(op, x))

    def function(x: Any) -> Any:
        return call_function(op, x) if isinstance(x, Array) else alone(x)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"{about}. Element by element, in the array's own float dtype; integers give float64."
    return function


globals().update({op: _function(op, OPERATIONS[op]["doc"]) for op in UNARY_FUNCTIONS})


def __getattr__(name: str) -> Any:  # tells type checkers of the names above
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def relu(x: Any) -> Any:
    """max(x, 0); NaN stays."""
    return _relu(x) if not isinstance(x, Array) else _positive(x)


def _positive(x: Any) -> Any:
    import numpy as np

    return np.maximum(x, 0)


_relu = jit(_positive)
