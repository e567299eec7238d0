# hologram/_graph.py: writing graph operations from Python
# mypy: disable-error-code="no-any-return,no-untyped-def,no-untyped-call"
"""The vocabulary in which operators become graph nodes. Shapes are lists of ints and expressions."""

import struct
from typing import Any

from hologram import _core

Value: Any = _core.Value
FLOATS = frozenset(("f16", "bf16", "f32", "f64"))
HALVES = frozenset(("f16", "bf16"))


class Unsupported(Exception):
    """What a graph cannot express."""


def compute(name: str) -> str:
    """The type in which a composition on `name` is computed before its one rounding."""
    return "f32" if name in HALVES else name


def numel(shape: Any) -> Any:
    """Product of ints and expressions."""
    out: Any = 1
    for n in shape:
        out = n * out
    return out


def contiguous_strides(shape: Any) -> Any:
    """Row-major strides; a dimension of 0 counts as 1."""
    out: list[Any] = []
    step: Any = 1
    for n in reversed(shape):
        out.append(step)
        step = step * (n if type(n) is not int or n > 0 else 1)
    return out[::-1]


def f64_bits(x: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", x))[0]


class GraphBuilder:
    """Operations of one graph."""

    def __init__(self, graph):
        self.graph = graph
        self.make = graph.make
        self.reshape = graph.reshape
        self.permute = graph.permute
        self.concat = graph.concat
        self.flip = graph.flip
        self.iota = graph.iota

    # --- leaves
    def number(self, dtype, value, shape=()):
        """`value` converted as Python converts numbers."""
        if dtype in FLOATS:
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

    def scalar(self, x, dtype):
        """An operand (value, number or symbolic size) as a value of this dtype."""
        if type(x) is Value:
            return self.cast(x, dtype)
        if isinstance(x, (bool, int, float)):
            return self.number(dtype, x)
        if x is None or isinstance(x, (complex, str)):
            raise Unsupported(f"operand {x!r}")
        return self.size_value(x, dtype)

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
        wraps = have in FLOATS and dtype not in FLOATS and dtype != "b8"
        return self.graph.cast(x, dtype, "cast_wrap" if wraps else "cast")

    # --- movement
    def broadcast_shape(self, *shapes):
        out: list[Any] = []
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
        return self.make("dot_general", [x, y], ints=[0], dtype=compute(x.dtype) if wide else None)

    def take(self, x, indices, axis, batch=0):
        return self.make("take", [x, indices], ints=[axis, batch])

    def argsort(self, x, axis, descending=False, count=None, first=0):
        """The positions of `count` elements along `axis`, from place `first` on, once these are stably sorted."""
        count = x.shape[axis] - first if count is None else count
        return self.make("argsort", [x], ints=[axis, int(descending), first], exprs=[count])

    def scatter(self, x, indices, updates, axis, mode="set", batch=0):
        mode = ("set", "add", "mul", "max", "min").index(mode)
        return self.make("scatter", [x, indices, updates], ints=[axis, mode, batch])
