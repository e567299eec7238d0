# hologram_torch/graph/builder.py: writing graph operations from Python
import struct

import torch
from hologram import _core

from .. import device, precision
from . import dtypes
from .symbols import Symbols, Unsupported

Value = _core.Value
NUMBERS = (bool, int, float)
_PRODUCTS = frozenset(("dot_general", "attention", "attention_lse"))  # a GPU's are PyTorch's unless asked for
_LEFT_ON_GPUS = frozenset(("attention_grad", "argsort"))
_FEW_PLACES = 32  # that one thread of a GPU writes one after the other


def numel(shape):
    """Product of ints and expressions."""
    out = 1
    for n in shape:
        out = n * out
    return out


def contiguous_strides(shape):
    """Row-major strides; a dimension of 0 counts as 1, as in PyTorch."""
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step = step * (n if type(n) is not int or n > 0 else 1)
    return out[::-1]


def _writes_few(operands, ints) -> bool:
    """Whether a scatter writes a few places of each column, as into a cache: their order is one thread's."""
    places = numel(operands[1].shape[ints[2] :])
    return type(places) is int and places <= _FEW_PLACES


def f64_bits(x: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", x))[0]


class Builder:
    """A graph with the small vocabulary that the lowerings share. Shapes are lists of ints and expressions."""

    def __init__(self):
        self.graph = graph = _core.Graph()
        self.symbols = Symbols(graph)
        self.make = graph.make if device.here() == "cpu" else self._make_there
        self.reshape = graph.reshape
        self.permute = graph.permute
        self.concat = graph.concat
        self.flip = graph.flip
        self.iota = graph.iota

    def _make_there(self, op, *args, **kwargs):
        """On a GPU: what its backend renders no kernel for is PyTorch's."""
        left = op in _LEFT_ON_GPUS or (op in _PRODUCTS and not device.own_products())
        if left or op == "scatter" and not _writes_few(*args, **kwargs):
            raise Unsupported(f"{op} on a GPU")
        return self.graph.make(op, *args, **kwargs)

    # --- leaves
    def number(self, dtype, value, shape=()):
        """`value` converted as PyTorch converts a Python number."""
        if dtype in dtypes.FLOATS:
            value = float(value)
        elif dtype == "b8":
            value = int(bool(value))
        else:
            value = int(value)
        return self.graph.number(dtype, value, list(shape))

    def size_value(self, n, dtype="i64"):
        """A size known at run time, as a scalar of the graph."""
        if type(n) is int:
            return self.number(dtype, n)
        below = 0 if n.nonnegative else 1 << 40
        line = self.graph.iota("i64", [n + 1 if below == 0 else 1 << 41], 0)
        value = self.reshape(self.graph.slice(line, [n + below], [1], [1]), [])
        return self.cast(self.sub(value, below) if below else value, dtype)

    # --- element-wise
    def ew(self, op, *operands):
        """Broadcasting element-wise operation; Python numbers take the first operand's dtype."""
        return self.graph.elementwise(op, self._values(operands))

    def _values(self, operands):
        if any(type(x) is not Value for x in operands):
            dtype = next(x.dtype for x in operands if type(x) is Value)
            operands = [x if type(x) is Value else self.number(dtype, x) for x in operands]
        return list(operands)

    def add(self, x, y):
        return self.ew("add", x, y)

    def sub(self, x, y):
        return self.ew("sub", x, y)

    def mul(self, x, y):
        return self.ew("mul", x, y)

    def div(self, x, y):
        return self.ew("div", x, y)

    def eq(self, x, y):
        return self.ew("eq", x, y)

    def ne(self, x, y):
        return self.ew("ne", x, y)

    def lt(self, x, y):
        return self.ew("lt", x, y)

    def le(self, x, y):
        return self.ew("le", x, y)

    def both(self, x, y):
        return self.ew("bit_and", x, y)

    def either(self, x, y):
        return self.ew("bit_or", x, y)

    def no(self, x):
        return self.ew("bit_not", x)

    def where(self, condition, x, y):
        x, y = self._values((x, y))
        shape = self.broadcast_shape(condition.shape, x.shape, y.shape)
        return self.make("select", [self.broadcast(v, shape) for v in (condition, x, y)])

    def cast(self, x, dtype):
        """Conversion as PyTorch on x86 does it."""
        have = x.dtype
        if have == dtype:
            return x
        wraps = have in dtypes.FLOATS and dtype not in dtypes.FLOATS and dtype != "b8"
        return self.graph.cast(x, dtype, "cast_wrap" if wraps else "cast")

    # --- movement
    def broadcast_shape(self, *shapes):
        out = []
        for shape in shapes:
            lead = len(out) - len(shape)
            if lead < 0:
                out, shape, lead = list(shape), out, -lead
            for i, n in enumerate(shape):
                if type(out[lead + i]) is int and out[lead + i] == 1:
                    out[lead + i] = n
        return out

    def broadcast(self, x, shape):
        return self.graph.broadcast(x, list(shape))

    def slice(self, x, starts, sizes, steps=None):
        return self.graph.slice(x, list(starts), list(sizes), list(steps or [1] * len(sizes)))

    def slice_axis(self, x, axis, start, size, step=1):
        shape = list(x.shape)
        starts, steps = [0] * len(shape), [1] * len(shape)
        starts[axis], shape[axis], steps[axis] = start, size, step
        return self.slice(x, starts, shape, steps)

    def select_axis(self, x, axis, at):
        x = self.slice_axis(x, axis, at, 1)
        shape = list(x.shape)
        return self.reshape(x, shape[:axis] + shape[axis + 1 :])

    def pad(self, x, low, shape, value):
        return self.graph.pad(x, list(low), list(shape), value)

    def unsqueeze(self, x, axis):
        shape = list(x.shape)
        shape.insert(axis, 1)
        return self.reshape(x, shape)

    def flatten(self, x):
        return self.reshape(x, [numel(x.shape)])

    def transpose(self, x, a, b):
        axes = list(range(len(x.shape)))
        axes[a], axes[b] = axes[b], axes[a]
        return self.permute(x, axes)

    # --- reductions and products
    def reduce(self, op, x, axes, keepdim=False):
        shape = x.shape
        axes = sorted(axes)
        out = self.graph.reduce("reduce_" + op, x, axes)
        if keepdim:
            out = self.reshape(out, [1 if i in axes else n for i, n in enumerate(shape)])
        return out

    def count(self, x, axes):
        """Number of elements that a reduction over `axes` joins."""
        shape = x.shape
        return numel([shape[i] for i in axes])

    def mean(self, x, axes, keepdim=False):
        """Mean of a float value; rounds once when x is wide enough."""
        n = self.count(x, axes)
        return self.div(self.reduce("sum", x, axes, keepdim), self.size_value(n, x.dtype))

    def dot(self, x, y, wide=False):
        """The product; `wide`: not rounded to a 16-bit dtype, but in the one that such operands are computed in."""
        return self.make("dot_general", [x, y], ints=[0], dtype=dtypes.compute(x.dtype) if wide else None)

    def matmul(self, x, y, wide=False):
        """A product to which PyTorch's float32 precision applies."""
        how = self.treatment if x.dtype == "f32" else precision.EXACT
        if how != precision.EXACT and device.here() == "cpu":
            rows, depth, columns = (self.hint(n) for n in (*x.shape[-2:], y.shape[-1]))
            kept = self.kept(y)
            if rows * depth * columns < precision.LEAST_WORK or (rows < precision.LEAST_ROWS and not kept):
                how = precision.EXACT
        if how == precision.EXACT:
            return self.dot(x, y, wide)
        if how == precision.BFLOAT16:
            return self.dot(self.cast(x, "bf16"), self.cast(y, "bf16"), wide=True)
        return self.make("dot_general", [x, y], ints=[1 if how == precision.TWO_TERMS else 2])

    def take(self, x, indices, axis, batch=0):
        return self.make("take", [x, indices], ints=[axis, batch])

    def argsort(self, x, axis, descending=False, count=None):
        """The positions of the first `count` elements along `axis` once these are stably sorted."""
        count = x.shape[axis] if count is None else count
        return self.make("argsort", [x], ints=[axis, int(descending)], exprs=[count])

    def scatter(self, x, indices, updates, axis, mode="set", batch=0):
        mode = ("set", "add", "mul", "max", "min").index(mode)
        return self.make("scatter", [x, indices, updates], ints=[axis, mode, batch])

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
