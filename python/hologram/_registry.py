# hologram/_registry.py: the table of NumPy functions that hologram.jit knows
"""FUNCTIONS: by the function that a traced program calls, what stands for it. `operator.getitem` has `x[...]`; `numpy.ufunc`
has every ufunc and takes (tracer, ufunc, method, inputs, options)."""

from typing import Any, Callable

import numpy as np

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
HOOKS: dict[str, Callable[..., Any]] = {}  # of _steps.py, which imports what looks here
FLOATS = ("f16", "bf16", "f32", "f64")


def implements(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            target = getattr(np, name, None)
            if target is not None:
                FUNCTIONS[target] = function
        return function

    return register
