# hologram_torch/graph/builder.py: writing graph operations from Python, as PyTorch computes
import torch
from hologram import _core
from hologram._graph import GraphBuilder, Value, contiguous_strides, f64_bits, numel

from .. import precision, runtimes
from . import dtypes
from .symbols import Symbols, Unsupported

__all__ = ["Builder", "Left", "Value", "contiguous_strides", "f64_bits", "numel", "promote"]

NUMBERS = (bool, int, float)
_ATTENTION = frozenset(("attention", "attention_lse", "attention_grad"))
_SHORT_ROW = 2048  # elements that a GPU sorts in one kernel


class Left(Unsupported):
    """One of owners.KINDS, which is PyTorch's here."""


class Builder(GraphBuilder):
    """A graph with the vocabulary that the lowerings share."""

    kind = "products"  # which of owners.KINDS the products are that are being written

    def __init__(self, call=None):
        super().__init__(_core.Graph())
        self.symbols = Symbols(self.graph, call)
        if not runtimes.in_host_memory(runtimes.here()):
            self.make = self._make_there

    def _make_there(self, op, operands, ints=(), **kwargs):
        """On a GPU: what its table of owners says is PyTorch's is left to it."""
        kind = "attention" if op in _ATTENTION else self.kind if op == "dot_general" else None
        if op == "argsort" and not self._is_short(operands[0].shape[ints[0]]):
            kind = "long sorts"
        if kind and not runtimes.owns(kind):
            raise Left(kind)
        return self.graph.make(op, operands, ints=ints, **kwargs)

    @staticmethod
    def _is_short(size) -> bool:
        return type(size) is int and size <= _SHORT_ROW

    def matmul(self, x, y, wide=False):
        """A product to which PyTorch's float32 precision applies."""
        how = self.treatment if x.dtype == "f32" else precision.EXACT
        if how != precision.EXACT and runtimes.in_host_memory(runtimes.here()):
            rows, depth, columns = (self.hint(n) for n in (*x.shape[-2:], y.shape[-1]))
            kept = self.kept(y)
            if rows * depth * columns < precision.LEAST_WORK or (rows < precision.LEAST_ROWS and not kept):
                how = precision.EXACT
        if how == precision.EXACT:
            return self.dot(x, y, wide)
        if how == precision.BFLOAT16:
            return self.dot(self.cast(x, "bf16"), self.cast(y, "bf16"), wide=True)
        return self.make("dot_general", [x, y], ints=[1 if how == precision.TWO_TERMS else 2])

    # --- PyTorch's type promotion
    def result_dtype(self, *operands):
        """torch.result_type of values, Python numbers and symbolic sizes (as integers)."""
        dims = zero = None
        scalar = -1
        for x in operands:
            if type(x) is Value:
                name = x.dtype
                if x.shape:
                    dims = name if dims in (None, name) else promote(dims, name)
                else:
                    zero = name if zero in (None, name) else promote(zero, name)
            else:
                scalar = max(scalar, 0 if type(x) is bool else 2 if type(x) is float else 1)
        out = dims
        if zero is not None and (out is None or dtypes.CATEGORY[zero] > dtypes.CATEGORY[out]):
            out = zero if out is None else promote(out, zero)
        if scalar >= 0 and (out is None or scalar > dtypes.CATEGORY[out]):
            out = ("b8", "i64", dtypes.NAME[torch.get_default_dtype()])[scalar]
        return out


def promote(x, y):
    """torch.promote_types on names."""
    found = dtypes.NAME.get(torch.promote_types(dtypes.TORCH[x], dtypes.TORCH[y]))
    if found is None:
        raise Unsupported(f"{x} with {y}")
    return found
