# hologram_torch/graph/dtypes.py: PyTorch's element types and Hologram's
import torch
from hologram._graph import FLOATS, HALVES, compute

from .. import runtimes

__all__ = ["CATEGORY", "FLOATS", "HALVES", "HOST", "INT_RANGE", "NAME", "TORCH", "compute", "is_native"]

NAME = {
    torch.bool: "b8",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
}
"""Hologram's name of each PyTorch dtype that its graphs hold; every other one is "host"."""

TORCH = {name: dtype for dtype, name in NAME.items()}
HOST = "host"

_ORDER = {"b8": 0} | {name: 1 for name in TORCH} | {name: 2 for name in FLOATS}
CATEGORY = _ORDER | {"b8": 0}
"""0 truth value, 1 integer, 2 float: PyTorch's order for type promotion."""

INT_RANGE = {
    torch_name: (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    for dtype, torch_name in NAME.items()
    if torch_name not in FLOATS and torch_name != "b8"
}


def is_native(value) -> bool:
    """Whether the (fake) tensor is one that the graph can hold: dense, on its device, of a known dtype."""
    return (
        value.dtype in NAME
        and value.layout is torch.strided
        and runtimes.is_here(value)
        and not value.is_neg()
        and not value.is_quantized
    )
