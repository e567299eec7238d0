# hologram_torch/lowering/__init__.py: which ATen operators have a native lowering
"""A lowering is `function(c, *args, **kwargs) -> Value, tuple of values, or None`. It takes the operator's arguments
with tensors as graph values and symbolic sizes as expressions; `c` (translate.translator.Translator) is the graph builder, and
knows the node's fake result as `c.out`. What it cannot express it refuses with `Unsupported`: PyTorch then runs it."""

import importlib
import pkgutil

from ..graph.symbols import Unsupported

__all__ = ["Unsupported", "find", "has_lowering", "lower"]

_table = {}
_by_target = {}


_NAMESPACES = ("aten.", "prims.", "hologram.", "quantized_decomposed.", "transformers.")


def lower(*names):
    """Registers a lowering for operators named like "aten.add.Tensor" ("aten." may be left out)."""

    def register(function):
        for name in names:
            _table[name if name.startswith(_NAMESPACES) else "aten." + name] = function
        return function

    return register


def add(name, function):
    """Registers the lowering of an operator that is not ours: "namespace.name.overload"."""
    _table[name] = function
    _by_target.clear()


def _load():
    if None not in _by_target:
        for module in pkgutil.iter_modules(__path__):
            importlib.import_module(f"{__name__}.{module.name}")
        _by_target[None] = None


def find(target):
    """The lowering of an operator overload, or None."""
    try:
        return _by_target[target]
    except KeyError:
        _load()
        found = _by_target[target] = _table.get(str(target))
        return found


def has_lowering(name: str) -> bool:
    _load()
    return name in _table
