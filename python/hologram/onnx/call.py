# hologram/onnx/call.py: one node while it is traced, as its lowering sees it
# mypy: ignore-errors
import numpy as np

from hologram._graph import GraphBuilder, Unsupported, Value
from hologram._operands import match
from hologram._steps import Recorder
from hologram.trace import Array, Dim, TraceError, name_of

__all__ = ["Array", "Builder", "Call", "Dim", "Unsupported", "Value", "is_known", "is_sizes", "is_strings", "lift", "name_of", "numbers"]


def is_known(x):
    """Whether the values of an operand are known while tracing: a NumPy array, perhaps of open sizes."""
    return isinstance(x, np.ndarray)


def is_sizes(x):
    """Whether the operand is an array of sizes of which some are open."""
    return isinstance(x, np.ndarray) and x.dtype == object and not (x.size and isinstance(x.flat[0], str))


def is_strings(x):
    """Whether an operand is an array of strings, known or given to the call."""
    return isinstance(x, Array) and x.foreign and x.dtype == object or is_known(x) and x.dtype == object and not is_sizes(x)


def is_native(*operands):
    """Whether graphs have the values of all operands, which are not known yet."""
    return all(isinstance(x, Array) and not x.foreign for x in operands)


# As graphs have them: without what NumPy's functions know besides, of views and of calls between graphs, which is long to import.
reshape, transpose = Array.reshape.__wrapped__, Array.transpose.__wrapped__


def settled(x):
    """An array of sizes as one of integers, where none is open."""
    if is_sizes(x) and not any(isinstance(n, Dim) for n in x.flat):
        return x.astype(np.int64)
    return x


def numbers(x):
    """A known operand as a flat list of ints and open sizes."""
    return [n if isinstance(n, Dim) else int(n) for n in x.flat]


class Builder(GraphBuilder):
    """Graph nodes of the tracer's present graph; shapes may hold Dims."""

    def __init__(self, tracer):
        super().__init__(tracer.graph)
        self.tracer = tracer
        self.reshape = lambda x, shape: tracer.graph.reshape(x, plain(shape))
        self.quantised, self.reproducible = tracer.quantised, tracer.reproducible

    def ew(self, op, *operands):
        """Element-wise; sizes that this call has equal are taken for equal, guarded."""
        return self.graph.elementwise(op, match(self.tracer, self._values(operands)))

    def broadcast(self, x, shape):
        return self.graph.broadcast(x, plain(shape))

    def number(self, dtype, value, shape=()):
        return super().number(dtype, value, plain(shape))

    def slice(self, x, starts, sizes, steps=None):
        return super().slice(x, plain(starts), plain(sizes), steps)

    def pad(self, x, low, shape, value):
        return super().pad(x, plain(low), plain(shape), value)

    def hint(self, n):
        """The value of a size in the call that is traced."""
        return n if isinstance(n, int) else n.evaluate(self.tracer.hints)

    def wide(self, x):
        """The operand in the type that halves are computed in."""
        return self.cast(x, "f32") if x.dtype in ("f16", "bf16") else x


def plain(sizes):
    """Sizes as ints and expressions."""
    return [n if type(n) is int else n.expr if isinstance(n, Dim) else int(n) if isinstance(n, np.integer) else n for n in sizes]


def lift(tracer, x):
    """A value as a stand-in."""
    if isinstance(x, Array):
        return x
    if isinstance(x, Value):
        return Array(tracer, x)
    if is_sizes(x):
        b = Builder(tracer)
        line = [tracer.size_value(n.expr if isinstance(n, Dim) else int(n)) for n in x.flat]
        if not x.ndim:
            return Array(tracer, line[0].value)
        joined = b.concat([b.reshape(n.value, [1]) for n in line], 0)
        return Array(tracer, b.reshape(joined, list(x.shape)))
    x = np.asarray(x)
    if x.size == 1 and x.dtype.name in _NUMBERS:
        return Array(tracer, Builder(tracer).number(name_of(x.dtype), x.item(), list(x.shape)))
    return tracer.constant(x)


_NUMBERS = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "bool", "int8", "uint8")


class Call:
    """A node: attributes, version, and the graph that it adds to."""

    def __init__(self, node, tracer):
        self.node_of_model, self.tracer = node, tracer
        self.version, self.outputs = node.version, node.outputs
        self.b = Builder(tracer) if tracer is not None else None

    def attr(self, name, default=None):
        return self.node_of_model.attributes.get(name, default)

    def has(self, index):
        """Whether the model names result `index`."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def lift(self, x):
        """The operand as a stand-in."""
        return lift(self.tracer, x)

    def value(self, x):
        """The operand as a node of the graph; None stays None."""
        return None if x is None else self.lift(x).value

    def values(self, *operands):
        return [self.value(x) for x in operands]

    def shape(self, x):
        """Sizes: ints and Dims."""
        return list(x.shape)

    def axis(self, rank, default=0, name="axis"):
        """An attribute that names an axis, from the front."""
        axis = self.attr(name, default)
        if not -rank <= axis < max(rank, 1):
            raise ValueError(f"axis {axis} of an operand of {rank} dimensions")
        return axis % max(rank, 1)

    def ints(self, operand, name, default=None):
        """Numbers that later opsets take as an operand, earlier ones as an attribute."""
        if operand is not None:
            return numbers(operand)
        value = self.attr(name, default)
        return None if value is None else list(value) if isinstance(value, (list, tuple)) else value


class OnnxRecorder(Recorder):
    """Traces the nodes of a graph. Sizes that the model gives as numbers are those numbers."""

    owns = True
    declared = ()
    reproducible = False

    def __init__(self, *args):
        super().__init__(*args)
        self._forget()

    def _forget(self):
        """What is known of nodes of the present graph, by their ids."""
        self.quantised = {}  # dequantised nodes -> _quantised.Quantised
        self.softmaxes = {}  # softmax along the last axis -> its operand
        self.scaled = {}  # product with a number -> (the other factor, the number)

    def next_graph(self):
        self._forget()
        super().next_graph()

    def argument(self, leaf, scalar=False):
        dims = type(self).declared
        self._dims = dims[self.leaves] if self.leaves < len(dims) else None
        try:
            return super().argument(leaf, scalar)
        finally:
            self._dims = None

    _dims = None

    def _pattern(self, dtype, shape, fixed=False):
        if fixed or self._dims is None or len(self._dims) != len(shape):
            return super()._pattern(dtype, shape, fixed)
        sizes, dims = [], []
        for n, name in zip(shape, self._dims):
            if n < 2 or isinstance(name, int):
                sizes.append(n)
                dims.append(n)
                continue
            key = name or n
            if key not in self._symbols:
                self._symbols[key] = (len(self.hints), self.graph.new_symbol())
                self.hints.append(n)
            number, symbol = self._symbols[key]
            sizes.append(symbol)
            dims.append(~number)
        return ("array", np.dtype(dtype), dims), sizes

    def run(self, function, args, kwargs):
        return function.run(self, args)


__all__ += ["OnnxRecorder", "TraceError", "is_native", "plain", "reshape", "settled", "transpose"]
