# hologram/onnx/read.py: a model file as a function that is traced
# mypy: ignore-errors
import contextlib
import mmap
import os

from hologram.onnx import kept, tensors, wire
from hologram.onnx.graph import Graph, Scope
from hologram.onnx.inputs import Input
from hologram.onnx.parts import Parts


class Reading:
    """A model that was read. inputs: Inputs; outputs: names; files: those with its data, beside its own, and what names their content;
    graph: its nodes; function: of arrays. What traces is imported while the weights are read."""

    def __init__(self, source, options, quantize=None, calibrate=None):
        with contextlib.ExitStack() as stack:
            proto, folder = _read(source, stack)
            opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in proto.opset_import}
            functions = {(("" if f.domain == "ai.onnx" else f.domain), f.name, getattr(f, "overload", "")): f for f in proto.functions}
            self.graph = Graph(proto.graph, Scope(opsets, functions, folder)).closed("the model")
        self.inputs = [input_of(v) for v in proto.graph.input if v.name not in self.graph.constants]
        self.graph.inputs = [v.name for v in self.inputs]
        self.outputs, self.name = list(self.graph.outputs), proto.graph.name
        self.function = self._traced(options, quickly=True)  # until someone finishes it
        if folder is not None and folder.own is not None:
            folder.own.finish()
        self.files = [(path, kept.identity(path)) for path in sorted(folder.used)] if folder is not None else []
        if quantize is not None:
            from hologram.onnx import quantize as narrow

            ranges = narrow.observe(self.graph, quantize, lambda names: self._observed(names, calibrate, options)) if calibrate else None
            narrow.rewrite(self.graph, quantize, ranges)

    def _traced(self, options, quickly):
        from hologram._jit import Jitted
        from hologram.onnx.call import OnnxRecorder
        from hologram.onnx.run import Runner

        declared = tuple(v.dims for v in self.inputs)
        flat = not any(v.sequence or v.optional for v in self.inputs)  # else leaves are not the inputs
        recorder = type("ModelRecorder", (OnnxRecorder,), {"declared": declared if flat else (), "reproducible": options["reproducible"]})
        runner = Runner(self.graph)
        runner.__name__ = self.name or "model"
        return Jitted(runner, **options, recorder=recorder, quickly=quickly)

    def _observed(self, names, calibrate, options):
        """For each call the values that the graph has under these names."""
        graph = self.graph
        graph.outputs = names
        graph.last = graph._last_uses()
        function = self._traced(options, quickly=False)
        for given in calibrate:
            sizes = {}
            if isinstance(given, dict):
                missing = [spec.name for spec in self.inputs if spec.name not in given]
                if missing:
                    raise ValueError(f"from_onnx: calibrate: expected all inputs, got none for {missing[0]!r}")
                given = [given[spec.name] for spec in self.inputs]
            given = given if isinstance(given, (tuple, list)) else [given]
            yield function(*[spec.take(value, sizes) for spec, value in zip(self.inputs, given, strict=True)])
        graph.outputs = list(self.outputs)
        graph.last = graph._last_uses()


def _read(model, stack):
    """(the model's messages, the Folder that its data is in). stack: of what is open while the graph is made."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        data, folder, where = bytes(model), None, "the bytes"
    elif isinstance(model, (str, os.PathLike)):
        data, own = _content(stack.enter_context(open(model, "rb")))
        folder, where = tensors.Folder(os.path.dirname(os.path.abspath(model)), own), os.fspath(model)
    elif hasattr(model, "graph") and hasattr(model, "SerializeToString"):
        return model, None
    else:
        raise TypeError(f"from_onnx: expected a path, bytes or a ModelProto, got {type(model).__name__}")
    try:
        proto = wire.model(data)
    except ValueError as error:
        raise ValueError(f"from_onnx: {where}: no ONNX model: {error}") from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise ValueError(f"from_onnx: {where}: no ONNX model: it has no graph or names no opset")
    return proto, folder


def _content(file):
    """(the bytes of a file, what reads its large parts): a view, where it can be mapped."""
    try:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (ValueError, OSError):  # empty, or no regular file
        return file.read(), None
    return view, Parts(file, view)


def input_of(proto):
    kind = proto.type
    optional = kind.HasField("optional_type")
    if optional:
        kind = kind.optional_type.elem_type
    sequence = kind.HasField("sequence_type")
    if sequence:
        kind = kind.sequence_type.elem_type
    if not kind.HasField("tensor_type"):
        raise NotImplementedError(f"from_onnx: input {proto.name!r} is no tensor or sequence of tensors")
    try:
        dtype = tensors.dtype_of(kind.tensor_type.elem_type)
    except NotImplementedError as error:
        raise NotImplementedError(f"from_onnx: input {proto.name!r}: {error}") from None
    dims = None
    if kind.tensor_type.HasField("shape") and not sequence:
        dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kind.tensor_type.shape.dim]
    return Input(proto.name, dtype, dims, sequence, optional)
