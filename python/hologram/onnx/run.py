# hologram/onnx/run.py: the nodes of a graph on stand-ins, one after the other
# mypy: ignore-errors
import numpy as np

from hologram._jit import Jitted
from hologram.onnx import table, tensors
from hologram.onnx.call import Array, Call, Dim, OnnxRecorder, TraceError, Unsupported, Value, is_known, is_sizes, is_strings, lift, settled
from hologram.onnx.graph import Graph, Scope, standard

_MISTAKES = ArithmeticError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError, ValueError  # of nodes that are wrong
MOST_FOLDED = 1 << 16  # elements of operands and results of what is computed while tracing


class Runner:
    """A graph as a function of its inputs, and of the values that it takes from the graph around."""

    def __init__(self, graph):
        self.graph = graph

    def run(self, tracer, args):
        graph = self.graph
        names = (*graph.inputs, *graph.captured)
        return _given(tracer, self.trace(tracer, dict(zip(names, args))))

    def trace(self, tracer, given):
        """The values of the graph's outputs. given: values by name."""
        environment = {**self.graph.constants, **given}
        for node, last in zip(self.graph.nodes, self.graph.last):
            run_node(tracer, node, environment)
            for name in last:
                environment.pop(name, None)
        if self.graph.function:  # may leave out results that the node does not name
            return [environment.get(name) for name in self.graph.outputs]
        return [environment[name] for name in self.graph.outputs]

    def compiled(self, options):
        """What calls with NumPy arrays run."""
        return Jitted(self, **options, recorder=OnnxRecorder)


class Single:
    """A node alone, with those operands whose values it needs: computed apart from the graph around, between graphs."""

    def __init__(self, node, known, count):
        self.node, self.known, self.count = node, known, count

    def run(self, tracer, args):
        given = iter(args)
        operands = [self.known[i] if i in self.known else next(given) for i in range(self.count)]
        return _given(tracer, listed(lowered(tracer, self.node, operands)))


def _given(tracer, results):
    """Results as callers get them: what is made of open sizes as numbers of the call."""
    return [_given(tracer, x) if isinstance(x, list) else lift(tracer, x) if is_sizes(x) else x for x in results]


class Step:
    """A node as a step: compiled for the values of the operands that it needs to know."""

    MOST = 64

    def __init__(self, node, dims):
        self.node, self.made = node, {}
        self.dims = dims  # by operand: sizes that are numbers, None for those that are open

    def __call__(self, *operands):
        node = self.node
        operands = [np.asarray(x) if isinstance(x, np.generic) else x for x in operands]
        positions = [i for i in node.row.known if i < len(operands) and isinstance(operands[i], np.ndarray)]
        key = tuple((i, operands[i].dtype.str, operands[i].shape, operands[i].tobytes()) for i in positions)
        if key not in self.made:
            if len(self.made) >= self.MOST:
                self.made.pop(next(iter(self.made)))
            known = {i: np.array(operands[i]) for i in positions} | {i: None for i, x in enumerate(operands) if x is None}
            dims = tuple(d for i, d in enumerate(self.dims) if i not in known)
            recorder = type("StepRecorder", (OnnxRecorder,), {"declared": dims})
            self.made[key] = known, Jitted(Single(node, known, len(operands)), False, False, recorder=recorder)
        known, function = self.made[key]
        return function(*[x for i, x in enumerate(operands) if i not in known])


def listed(results):
    return list(results) if isinstance(results, tuple) else [results]


def run_node(tracer, node, environment):
    try:
        operands = [environment[name] if name else None for name in node.inputs]
        results = listed(_results(tracer, node, operands, environment))
    except NotImplementedError:
        raise
    except (Unsupported, TraceError, *_MISTAKES) as error:
        if "from_onnx: node" in str(error):
            raise
        kind = NotImplementedError if isinstance(error, (Unsupported, TraceError)) else ValueError
        raise kind(f"from_onnx: {node}: {str(error) or type(error).__name__}") from error
    for name, value in zip(node.outputs, results):
        if name:
            environment[name] = wrapped(tracer, value)


def wrapped(tracer, value):
    """A result as values of the environment are."""
    if isinstance(value, Value):
        return Array(tracer, value)
    if isinstance(value, list):
        return [wrapped(tracer, part) for part in value]
    if isinstance(value, Dim):  # what NumPy gives for an array of objects without dimensions
        holder = np.empty((), object)
        holder[()] = value
        return holder
    return settled(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic, bool, int, float)) else value


def _results(tracer, node, operands, environment):
    if node.row is None:
        return call_function(tracer, node, operands)
    row = node.row
    if any(map(is_strings, operands)):
        row = table.find(table.STRINGS, node.op, node.version) or row
    if row.scope:
        return row.lower(Call(node, tracer), environment, *operands)
    if not row.sizes:
        operands = [lift(tracer, x) if is_sizes(x) and i not in row.known else x for i, x in enumerate(operands)]
    unknown = any(isinstance(operands[i], Array) for i in row.known if i < len(operands))
    if row.host or unknown:
        return as_step(tracer, node, operands, row.lower if row.host else None)
    if row.fold and not row.sizes and _foldable(operands):
        return folded(node, operands)
    return lowered(tracer, node, operands)


def as_step(tracer, node, operands, function=None):
    """A node that is computed between graphs; at once where all operands are known."""
    operands = [lift(tracer, x) if is_sizes(x) else x for x in operands]
    step = Step(node, [_dims(x) for x in operands]) if function is None else HostStep(node, function)
    if not any(_traced(x) for x in operands):
        return tuple(step(*operands))
    name = f"onnx.{node.op}" if function is None else f"numpy.{node.op}"
    return tuple(tracer.host(name, step, tuple(operands), {}))


def _dims(x):
    return [n if isinstance(n, int) else None for n in x.shape] if isinstance(x, (Array, np.ndarray)) else None


def _traced(x):
    return isinstance(x, Array) or isinstance(x, list) and any(map(_traced, x))


class HostStep:
    """A node that NumPy computes."""

    def __init__(self, node, function):
        self.node, self.function = node, function

    def __call__(self, *operands):
        operands = [np.asarray(x) if isinstance(x, np.generic) else x for x in operands]
        return listed(self.function(Call(self.node, None), *operands))


def _foldable(operands):
    known = [x for x in operands if x is not None]
    return bool(known) and all(is_known(x) and not is_sizes(x) for x in known) and sum(x.size for x in known) <= MOST_FOLDED


def folded(node, operands):
    """The values of a node whose operands are known, by its own lowering."""
    single = Single(node, dict(enumerate(operands)), len(operands))
    return tuple(Jitted(single, False, False, recorder=OnnxRecorder, quickly=True)())  # it runs once


def lowered(tracer, node, operands):
    """The results of the node's row."""
    return tuple(wrapped(tracer, value) for value in listed(node.row.lower(Call(node, tracer), *operands)))


# --- functions


def call_function(tracer, node, operands):
    """The nodes of the function that the model, or the standard, defines the operator by."""
    proto = node.function or node.body([_type_of(x, node) for x in operands])
    versions = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in proto.opset_import} or node.scope.versions
    attributes = node.defaults(proto) | node.attributes
    scope = Scope({**node.scope.versions, **versions}, node.scope.functions, node.scope.folder, attributes)
    graph = Graph(proto, scope).closed(f"the function of {node}")
    padded = [*operands, *[None] * (len(graph.inputs) - len(operands))]
    results = Runner(graph).trace(tracer, dict(zip(graph.inputs, padded)))
    return tuple(results)


def _type_of(x, node):
    kind = standard(f"for {node}").TypeProto()
    if x is None:
        return kind
    dtype = np.dtype(np.int64) if is_sizes(x) else x.dtype
    kind.tensor_type.elem_type = tensors.number_of(dtype)
    kind.tensor_type.shape.SetInParent()
    for n in x.shape:
        dim = kind.tensor_type.shape.dim.add()
        if isinstance(n, int):
            dim.dim_value = n
    return kind
