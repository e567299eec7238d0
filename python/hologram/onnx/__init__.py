# hologram/onnx/__init__.py: ONNX models as graphs of Hologram
# mypy: ignore-errors
"""A model (`model`) is read by the package `onnx` (`read`), its nodes run on stand-ins for arrays (`run`), and a row of `table` says
for each operator how it becomes operations of the graph. Rows are in the modules named in `FAMILIES`. What a process found out about
a file is kept for others (`kept`), which then import nothing of this."""

import importlib

FAMILIES = (
    "pointwise", "casts", "shapes", "reductions", "products", "convolution", "pooling", "norms", "resize", "images", "indexing",
    "ordering", "quantized", "recurrent", "signal", "sequences", "control", "training", "random", "narrow", "strings",
)  # fmt: skip


def load_table():
    """Every row, once."""
    for family in FAMILIES:
        importlib.import_module(f"hologram.onnx.{family}")
