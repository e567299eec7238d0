# hologram/_registry.py: the table of NumPy functions that hologram.jit knows
"""FUNCTIONS: by the function that a traced program calls, what stands for it. `operator.getitem` has `x[...]`; `numpy.ufunc`
has every ufunc and takes (tracer, ufunc, method, inputs, options). Both tables are filled when a stand-in is first given to NumPy:
many ONNX models are traced without."""

import importlib
from typing import Any, Callable

import numpy as np

FUNCTIONS: dict[Any, Callable[..., Any]] = {}


class _Hooks(dict[str, Callable[..., Any]]):
    def __missing__(self, name: str) -> Callable[..., Any]:
        importlib.import_module(f"{__package__}._functions")
        return self[name]


HOOKS = _Hooks()  # of modules that import what looks here
FLOATS = ("f16", "bf16", "f32", "f64")


def implements(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            target = getattr(np, name, None)
            if target is not None:
                FUNCTIONS[target] = function
        return function

    return register
