# hologram/onnx/table.py: which ONNX operators have a lowering
# mypy: ignore-errors
"""A lowering is `function(op, *operands)`. `op` (call.Call) is the node; operands are stand-ins (`trace.Array`), NumPy arrays where
the values are known (of dtype object for sizes that are open), lists for sequences, None where left out. It gives what the node's
results are, in order: of the same kinds, or nodes of the graph."""

import importlib
from typing import Any, Callable, Optional

FAMILIES = (  # modules with rows: those first that most models use
    "pointwise", "products", "shapes", "convolution", "pooling", "norms", "reductions", "casts", "indexing", "ordering", "resize", "images",
    "quantized", "recurrent", "signal", "sequences", "control", "training", "random", "narrow", "strings",
)  # fmt: skip
STRINGS = "strings"  # domain of rows in place of the standard's where an operand is of strings
ROWS: dict[tuple[str, str], list["Row"]] = {}


class Row:
    """One operator over a range of opsets.

    known: positions of operands whose values the lowering needs. sizes: whether it computes with open sizes as it does with
    numbers. fold: whether it may be computed at once where all operands are known. host: NumPy computes it, between graphs.
    scope: it has graphs among its attributes, and takes the values of the graph around before its operands."""

    def __init__(
        self, name: str, domain: str, since: int, until: Optional[int], lower: Callable[..., Any], known: tuple[int, ...],
        sizes: bool, fold: bool, host: bool, scope: bool,
    ) -> None:  # fmt: skip
        self.name, self.domain, self.since, self.until, self.lower = name, domain, since, until, lower
        self.known, self.sizes, self.fold, self.host, self.scope = known, sizes, fold, host, scope


def operator(*names, since=1, until=None, domain="", known=(), sizes=False, fold=True, host=False, scope=False):
    """Registers a lowering for operators of the opsets since … until."""

    def register(function):
        for name in names:
            row = Row(name, domain, since, until, function, known, sizes, fold, host, scope)
            ROWS.setdefault((domain, name), []).append(row)
        return function

    return register


def find(domain, name, version):
    """The row for an operator as an opset has it, or None. Families are imported until one has it: a model uses few of them."""
    families = iter(FAMILIES)
    while True:
        for row in ROWS.get((domain, name), ()):
            if row.since <= version and (row.until is None or version <= row.until):
                return row
        family = next(families, None)
        if family is None:
            return None
        importlib.import_module(f"hologram.onnx.{family}")
