# hologram/onnx/__init__.py: ONNX models as graphs of Hologram
# mypy: ignore-errors
"""A model is read by the package `onnx` (`model`), its nodes run on stand-ins for arrays (`run`), and a row of `table` says for
each operator how it becomes operations of the graph. Rows are in the modules named in `FAMILIES`."""

import importlib

try:
    import onnx  # noqa: F401
except ImportError as error:
    raise ImportError("hologram.from_onnx needs the package onnx: pip install 'hologram-compute[onnx]'") from error

FAMILIES = (
    "pointwise", "casts", "shapes", "reductions", "products", "convolution", "pooling", "norms", "resize", "images", "indexing",
    "ordering", "quantized", "recurrent", "signal", "sequences", "control", "training",
)  # fmt: skip


def load_table():
    """Every row, once."""
    for family in FAMILIES:
        importlib.import_module(f"hologram.onnx.{family}")
