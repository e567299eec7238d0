# hologram/onnx/sequences.py: sequences as Python's lists, optional values as None
# mypy: ignore-errors
import numpy as np

from hologram.onnx.call import is_sizes, numbers
from hologram.onnx.run import Runner
from hologram.onnx.table import operator


@operator("SequenceEmpty", sizes=True)
def empty(call):
    return ([],)


@operator("SequenceConstruct", sizes=True)
def construct(call, *operands):
    return ([_whole(call, x) for x in operands],)


def _whole(call, x):
    return call.lift(x) if is_sizes(x) else x


@operator("SequenceLength", sizes=True)
def length(call, sequence):
    return np.asarray(len(sequence), np.int64)


def _place(sequence, at, room=0):
    at = numbers(at)[0]
    if not -len(sequence) <= at < len(sequence) + room:
        raise IndexError(f"place {at} of a sequence of {len(sequence)}")
    return at + len(sequence) if at < 0 else at


@operator("SequenceAt", known=(1,), sizes=True)
def at(call, sequence, place):
    return sequence[_place(sequence, place)]


@operator("SequenceInsert", known=(2,), sizes=True)
def insert(call, sequence, value, place=None):
    made = list(sequence)
    made.insert(len(made) if place is None else _place(sequence, place, 1), _whole(call, value))
    return (made,)


@operator("SequenceErase", known=(1,), sizes=True)
def erase(call, sequence, place=None):
    made = list(sequence)
    made.pop(-1 if place is None else _place(sequence, place))
    return (made,)


@operator("ConcatFromSequence", sizes=True)
def concat(call, sequence):
    parts = [call.lift(x) for x in sequence]
    return np.stack(parts, call.attr("axis")) if call.attr("new_axis", 0) else np.concatenate(parts, call.attr("axis"))


@operator("SplitToSequence", known=(1,), sizes=True)
def split(call, x, parts=None):
    axis = call.axis(len(x.shape))
    n = x.shape[axis]
    keep = parts is not None or call.attr("keepdims", 1)
    if parts is None:
        sizes = [1] * int(n)
    elif parts.ndim:
        sizes = numbers(parts)
    else:
        each, n = numbers(parts)[0], int(n)
        sizes = [each] * (n // each) + ([n % each] if n % each else [])
    made, start = [], 0
    for size in sizes:
        key = slice(start, start + size) if keep else start
        made.append(x[(slice(None),) * axis + (key,)])
        start = start + size
    return (made,)


@operator("SequenceMap", sizes=True, scope=True)
def map_(call, environment, *operands):
    graph = call.attr("body")
    captured = {name: environment[name] for name in graph.captured}
    rows = []
    for i in range(len(operands[0])):
        values = [x[i] if isinstance(x, list) else x for x in operands]
        results = Runner(graph).trace(call.tracer, {**dict(zip(graph.inputs, values)), **captured})
        rows.append([_whole(call, v) for v in results])
    columns = list(zip(*rows)) if rows else [()] * len(graph.outputs)
    return tuple(list(column) for column in columns)


# --- optional values


@operator("Optional", sizes=True)
def optional(call, value=None):
    return (value,)


@operator("OptionalHasElement", sizes=True)
def has_element(call, value=None):
    return np.asarray(value is not None)


@operator("OptionalGetElement", sizes=True)
def get_element(call, value):
    if value is None:
        raise ValueError("the optional value is empty")
    return (value,)
