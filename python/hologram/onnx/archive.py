# hologram/onnx/archive.py: ONNX models as archives
# mypy: ignore-errors
"""The whole model is one graph with a symbol for each size that stays open. What Python would decide between graphs has no place in
an archive."""

import itertools
import json
import os

import numpy as np

from hologram import _core, _export
from hologram._graph import contiguous_strides
from hologram.onnx.call import Array, Builder, OnnxRecorder, lift, name_of
from hologram.onnx.run import Runner

LARGEST = (1 << 31) - 1


class Size:
    """A size that calls choose. hint: a value for decisions while tracing, another one for each size."""

    def __init__(self, name, least, most, number):
        self.name, self.least, self.most = name, least, most
        self.hint = min(most, max(least, 2) + 2 * number + 3)


class Placeholder:
    """An input without values. dims: numbers and Sizes."""

    def __init__(self, dtype, dims):
        self.dtype, self.dims = dtype, dims


class ArchiveRecorder(OnnxRecorder):
    """Traces a model without a call."""

    def __init__(self, reproducible):
        super().__init__(lambda tracer: None, None)
        self.reproducible = reproducible
        self.sizes = []  # by symbol
        self.loops = []  # arguments of ArchiveWriter.add_loop, but for the method

    def _describe(self, value, fixed):
        if not isinstance(value, Placeholder):
            return super()._describe(value, fixed)
        sizes, dims = [], []
        for n in value.dims:
            if isinstance(n, int):
                sizes.append(n)
                dims.append(n)
                continue
            if n.name not in self._symbols:
                self._symbols[n.name] = (len(self.hints), self.graph.new_symbol())
                self.hints.append(n.hint)
                self.sizes.append(n)
            number, symbol = self._symbols[n.name]
            sizes.append(symbol)
            dims.append(~number)
        return ("array", np.dtype(value.dtype), dims), sizes

    def host(self, name, function, args, kwargs):
        raise NotImplementedError(f"an archive holds one graph, and {name} is computed between graphs")

    def repeat(self, cell, gates, fixed, states, descending):
        """The states behind each step, sequences like `gates`, of a recurrent layer's cell: the graph of a step as a loop of the file.
        fixed: weights, None where there is none."""
        step, named = ArchiveRecorder(self.reproducible), {}

        def operand(value, shape):
            dims = [n if isinstance(n, int) else named.setdefault(str(n), (n, Size(str(n), 1, LARGEST, len(named))))[1] for n in shape]
            return step.argument(Placeholder(_core.numpy_dtype(value.dtype), dims)).value

        inner = [operand(gates, gates.shape[1:])]
        inner += [None if v is None else operand(v, v.shape) for v in fixed]
        before = [operand(v, v.shape) for v in states]
        _, *after = cell.step(Builder(step), *inner, None, None, before)
        if step.guards or any(pattern[0] == "bound" for pattern in step.patterns):
            raise NotImplementedError(f"an archive holds no loop of this {cell.kind}")
        for value in after:
            step.graph.output(value, contiguous_strides(value.shape))
        operands = [gates, *[v for v in fixed if v is not None], *states]
        roles = [("each", -1), *[("fixed", -1)] * (len(operands) - 1 - len(states)), *[("carry", i) for i in range(len(states))]]
        token = self.graph.make("host_call", operands, ints=[len(self.loops), 0], exprs=[], text=cell.kind)
        exprs = {size.name: expr for expr, size in named.values()}
        sizes = [exprs[size.name] for size in step.sizes]
        self.loops.append((len(self.loops), step.graph, roles, list(range(len(states))), gates.shape[0], sizes, descending))
        shapes = [[gates.shape[0], *v.shape] for v in states]
        return [
            self.graph.make("host_result", [token], ints=[i], exprs=contiguous_strides(shape), dtype=v.dtype, shape=shape)
            for i, (v, shape) in enumerate(zip(states, shapes))
        ]


def write(model, path, shapes=None, isas=None, padding=None, more=None):
    """Writes a Model as an archive with the method "forward": see Model.save. more: of what is said about its structure."""
    sizes, padding = _sizes(model, shapes or {}), _export.padding_of(padding, [spec.name for spec in model._inputs])
    tracer = ArchiveRecorder(model.options["reproducible"])
    leaves = [Placeholder(spec.dtype, [sizes.get(d, d) for d in dims]) for spec, dims in zip(model._inputs, _named(model))]
    arguments = [tracer.argument(leaf) for leaf in leaves]
    results = [_result(tracer, name, value) for name, value in zip(model.outputs, Runner(model.graph).run(tracer, arguments))]
    signatures = [(name, *tracer.output(value)) for name, value in results]
    guards = list(tracer.guards.values())
    _check_guards(tracer, guards)
    writer = _core.ArchiveWriter(os.fspath(path))
    parameters = _parameters(tracer, writer, model.graph.constants)
    inputs = [(spec.name, name_of(spec.dtype), tracer.slots[i][1]) for i, spec in enumerate(model._inputs)]
    symbols = [(n.name if n.name.isidentifier() else f"s{i}", n.least, n.most) for i, n in enumerate(tracer.sizes)]
    outputs = [{"result": i} for i in range(len(results))]
    structure = {
        "arguments": [[spec.name, {"input": i}] for i, spec in enumerate(model._inputs)],
        "outputs": outputs[0] if len(outputs) == 1 else {"tuple": outputs},
        **({"padding": padding} if padding else {}),
        **(more or {}),
    }
    method = writer.add_method(
        "forward", tracer.graph, symbols, inputs, signatures, parameters, guards, json.dumps(structure),
        model.options["reproducible"], model.options["fast"],
    )  # fmt: skip
    for loop in tracer.loops:
        writer.add_loop(method, *loop)
    return _export.finish(writer, os.fspath(path), isas)


def _named(model):
    """The sizes of each input: numbers and names."""
    for spec in model._inputs:
        if spec.dims is None or spec.sequence or spec.optional:
            raise NotImplementedError(f"save: input {spec.name!r} is no array of a known number of dimensions")
        yield spec.named()


def _sizes(model, shapes):
    """By name: a number, or what calls may choose."""
    names = list(dict.fromkeys(d for dims in _named(model) for d in dims if isinstance(d, str)))
    found = {}
    for name, given in shapes.items():
        if name not in names:
            raise ValueError(f"save: the model has no size {name!r}, but {', '.join(names) or 'none that is open'}")
        least, most = (given, given) if isinstance(given, int) else given
        if not 1 <= least <= most <= LARGEST:
            raise ValueError(f"save: {name}: expected 1 <= least <= most, got {least}..{most}")
        found[name] = (least, most)
    out = {}
    for number, name in enumerate(names):
        least, most = found.get(name, (1, LARGEST))
        out[name] = least if least == most else Size(name, least, most, number)
    return out


def _result(tracer, name, value):
    if isinstance(value, np.ndarray):
        return name, lift(tracer, value)
    if not isinstance(value, Array):
        raise NotImplementedError(f"save: result {name!r} is no array")
    return name, value


def _check_guards(tracer, guards):
    """Every size in its range must do: tries the corners."""
    corners = itertools.product(*[(n.least, min(n.most, 1 << 20)) for n in tracer.sizes])
    for corner in itertools.islice(corners, 256):
        for guard in guards:
            if guard.evaluate(list(corner)) < 0:
                given = ", ".join(f"{n.name}={value}" for n, value in zip(tracer.sizes, corner))
                raise NotImplementedError(
                    f"save: with {given} the model needs another graph than with "
                    f"{', '.join(f'{n.name}={n.hint}' for n in tracer.sizes)}; narrow the ranges"
                )


def _parameters(tracer, writer, constants):
    """Where the graph's parameters come from; constants become tensors of the file."""
    names = {id(array): name for name, array in constants.items()}
    used, out, inputs = set(), [], 0
    for pattern in tracer.patterns:
        if pattern[0] != "bound":
            out.append(("input", inputs))
            inputs += 1
            continue
        array = np.ascontiguousarray(pattern[1]).reshape(pattern[1].shape)
        name = names.get(id(pattern[1]), "constant")
        name = name if name not in used else f"{name}.{len(out)}"
        used.add(name)
        shape = list(array.shape)
        number = writer.add_tensor(
            name, name_of(array.dtype), shape, contiguous_strides(shape), array.__array_interface__["data"][0], array.nbytes
        )
        out.append(("tensor", number))
    return out
