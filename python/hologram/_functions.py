# hologram/_functions.py: what NumPy's functions are on stand-ins, in the tables of _registry.py
"""The modules that are named here fill FUNCTIONS and HOOKS."""

from hologram import (  # noqa: F401
    _assignment,
    _creation,
    _products,
    _selection,
    _series,
    _shapes,
    _steps,
    _tables,
    numpy_functions,
)
from hologram._registry import HOOKS

HOOKS.update(object=_steps.Stateful, function=_steps.function_call, ufunc=_steps.ufunc_call, attribute=_steps.attribute,
             compared=_steps.compared)  # fmt: skip
