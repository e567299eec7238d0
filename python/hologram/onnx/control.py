# hologram/onnx/control.py: If, Loop and Scan
# mypy: ignore-errors
"""Where values that are known decide, the nodes of the body become part of the graph around. Else Python decides between graphs,
and the body is compiled once."""

import numpy as np

from hologram.onnx.call import is_known, is_sizes
from hologram.onnx.run import Runner, _traced, listed
from hologram.onnx.table import operator

MOST_UNROLLED = 32
OPTIONS = {"reproducible": False, "fast": False}


class Body:
    """A graph that steps call, with the values that it takes from around."""

    def __init__(self, call, graph, environment):
        self.graph, self.call = graph, call
        self.captured = [_whole(call, environment[name]) for name in graph.captured]
        self.function = Runner(graph).compiled(OPTIONS)

    def inline(self, *operands):
        values = dict(zip((*self.graph.inputs, *self.graph.captured), (*operands, *self.captured)))
        return Runner(self.graph).trace(self.call.tracer, values)


def _whole(call, x):
    return call.lift(x) if is_sizes(x) else x


def _arrays(values):
    return [np.asarray(v) if isinstance(v, np.generic) else v for v in values]


def _step(call, function, *operands):
    """The results of a step; at once where nothing is traced."""
    if not any(map(_any_traced, operands)):
        return tuple(_arrays(function(*operands)))
    return tuple(call.tracer.host(f"onnx.{call.node_of_model.op}", function, operands, {}))


def _any_traced(x):
    return _traced(x) or isinstance(x, (list, tuple)) and any(map(_any_traced, x))


@operator("If", sizes=True, scope=True)
def if_(call, environment, condition):
    bodies = [Body(call, call.attr(name), environment) for name in ("else_branch", "then_branch")]
    if is_known(condition):
        return tuple(bodies[bool(condition.reshape(-1)[0])].inline())

    def branch(condition, captured):
        at = bool(np.asarray(condition).reshape(-1)[0])
        return _arrays(bodies[at].function(*captured[at]))

    return _step(call, branch, condition, [body.captured for body in bodies])


@operator("Loop", sizes=True, scope=True)
def loop(call, environment, most=None, condition=None, *carried):
    body = Body(call, call.attr("body"), environment)
    kept = len(carried)
    scans = len(body.graph.outputs) - 1 - kept
    if (most is None or is_known(most)) and (condition is None or is_known(condition)):
        found = _unrolled(call, body, most, condition, carried, scans)
        if found is not None:
            return found
    carried = [_whole(call, x) for x in carried]
    most, condition = _whole(call, most), _whole(call, condition)

    def run(most, condition, carried, captured):
        limit = None if most is None else int(np.asarray(most).reshape(-1)[0])
        going = True if condition is None else bool(np.asarray(condition).reshape(-1)[0])
        values, rows, i = list(carried), [[] for _ in range(scans)], 0
        while going and (limit is None or i < limit):
            results = _arrays(body.function(np.asarray(i, np.int64), np.asarray(going), *values, *captured))
            going, values = bool(results[0].reshape(-1)[0]), results[1 : 1 + kept]
            for row, value in zip(rows, results[1 + kept :]):
                row.append(value)
            i += 1
        return [*_arrays(values), *(_stacked(body.graph, 1 + kept + n, row) for n, row in enumerate(rows))]

    return _step(call, run, most, condition, list(carried), body.captured)


def _stacked(graph, index, row):
    if row:
        return np.stack(row)
    kind = graph.types[index]
    return np.zeros((0, *kind[1]), kind[0])


def _unrolled(call, body, most, condition, carried, scans):
    """The iterations as part of the graph, where their number is known and small; None where it is not."""
    limit = None if most is None or is_sizes(most) else int(most.reshape(-1)[0])
    going = True if condition is None else bool(condition.reshape(-1)[0])
    if going and (limit is None or limit > MOST_UNROLLED) or limit is None and going:
        return None
    values, rows = list(carried), [[] for _ in range(scans)]
    for i in range(limit if going else 0):
        results = body.inline(np.asarray(i, np.int64), np.asarray(going), *values)
        if not is_known(results[0]):
            return None
        values = results[1 : 1 + len(carried)]
        for row, value in zip(rows, results[1 + len(carried) :]):
            row.append(value)
        going = bool(results[0].reshape(-1)[0])
        if not going:
            break
    stacked = []
    for n, row in enumerate(rows):
        parts = [call.lift(value) for value in row]
        stacked.append(np.stack(parts) if parts else _stacked(body.graph, 1 + len(carried) + n, row))
    return (*values, *stacked)


# --- Scan


@operator("Scan", since=9, sizes=True, scope=True)
def scan(call, environment, *operands):
    return _scan(call, environment, operands, 0)


@operator("Scan", since=8, until=8, sizes=True, scope=True)
def scan_of_batches(call, environment, lengths, *operands):
    """Opset 8: a batch of sequences, each for itself."""
    if lengths is not None:
        raise NotImplementedError(f"from_onnx: {call.node_of_model}: lengths of sequences are not supported")
    return _scan(call, environment, operands, 1)


def _scan(call, environment, operands, batched):
    body = Body(call, call.attr("body"), environment)
    count = call.attr("num_scan_inputs")
    kept = len(operands) - count
    states, inputs = [_whole(call, x) for x in operands[:kept]], [_whole(call, x) for x in operands[kept:]]
    scans = len(body.graph.outputs) - kept
    axes = call.attr("scan_input_axes") or [0] * count
    backward = call.attr("scan_input_directions" if not batched else "directions") or [0] * count
    axes_out = call.attr("scan_output_axes") or [0] * scans
    backward_out = call.attr("scan_output_directions") or [0] * scans

    def run(states, inputs, captured, step=None):
        step = step or (lambda *values: _arrays(body.function(*values, *captured)))
        inputs = [np.moveaxis(x, a, 0) for x, a in zip(inputs, axes)]
        inputs = [x[::-1] if turned else x for x, turned in zip(inputs, backward)]
        values, rows = list(states), [[] for _ in range(scans)]
        for i in range(int(inputs[0].shape[0])):
            results = listed(tuple(step(*values, *(x[i] for x in inputs))))
            values = results[:kept]
            for row, value in zip(rows, results[kept:]):
                row.append(value)
        out = []
        for n, (row, axis, turned) in enumerate(zip(rows, axes_out, backward_out)):
            row = row[::-1] if turned else row
            made = np.stack(row) if row else _stacked(body.graph, kept + n, row)
            out.append(np.moveaxis(made, 0, axis) if axis else made)
        return [*values, *out]

    def run_batch(states, inputs, captured):
        size = states[0].shape[0] if states else inputs[0].shape[0]
        parts = [run([s[i] for s in states], [x[i] for x in inputs], captured) for i in range(size)]
        return [np.stack(column) for column in zip(*parts)]

    length = inputs[0].shape[axes[0]] if not batched else None
    if isinstance(length, int) and length <= MOST_UNROLLED and any(map(_traced, (*states, *inputs, *body.captured))):
        states, inputs = [call.lift(x) for x in states], [call.lift(x) for x in inputs]
        return tuple(run(states, inputs, body.captured, lambda *values: [call.lift(v) for v in body.inline(*values)]))
    return _step(call, run_batch if batched else run, states, inputs, body.captured)

