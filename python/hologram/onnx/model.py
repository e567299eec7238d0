# hologram/onnx/model.py: from_onnx: a model file as a function of NumPy arrays
# mypy: ignore-errors
import os
from typing import Any, Optional

import numpy as np
import onnx

from hologram import onnx as families
from hologram._jit import Jitted
from hologram.onnx import archive, tensors
from hologram.onnx import quantize as narrow
from hologram.onnx.call import OnnxRecorder
from hologram.onnx.graph import Graph, Scope
from hologram.onnx.run import Runner


def from_onnx(model: Any, *, reproducible: bool = False, fast: bool = False, quantize: Optional[str] = None) -> "Model":
    """The ONNX model in a file, in bytes or in an onnx.ModelProto, as a function of NumPy arrays.

    Inputs are given by position or by name, of the dtypes that the model says; results are an array, or a tuple of them. Graphs are
    compiled at the first call, with the sizes that the model leaves open (names, or unknown) open. Data outside of the file is
    mapped into memory, and only from below the file's folder.

    Args:
        reproducible: the same bits on every instruction set and thread count.
        fast: narrowing casts between operations may be dropped.
        quantize: "dynamic-int8": MatMul and Gemm by a constant matrix multiply bytes, with a scale for each column and a range for each
            row of the other factor; "weight-int8", "weight-int4": that matrix alone has 8 or 4 bits. Gather finds rows of bytes.

    Raises:
        ImportError: the package onnx is missing.
        NotImplementedError: an operator, element type or form that is not supported; it names the node.
        ValueError: no ONNX model, or data outside of its folder, or another word for quantize.
        FileNotFoundError, OSError: the file, or one with its data, cannot be read.
    """
    narrow.check(quantize)
    proto, folder = _read(model)
    families.load_table()
    return Model(proto, folder, {"reproducible": reproducible, "fast": fast}, quantize)


def _read(model):
    """(ModelProto, the folder that its external data is in or None)"""
    if isinstance(model, onnx.ModelProto):
        return model, None
    if isinstance(model, (bytes, bytearray, memoryview)):
        data, folder, where = bytes(model), None, "the bytes"
    elif isinstance(model, (str, os.PathLike)):
        folder, where = os.path.dirname(os.path.abspath(model)), os.fspath(model)
        with open(model, "rb") as file:
            data = file.read()
    else:
        raise TypeError(f"from_onnx: expected a path, bytes or a ModelProto, got {type(model).__name__}")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # the parser's own class
        raise ValueError(f"from_onnx: {where}: no ONNX model: {error}") from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise ValueError(f"from_onnx: {where}: no ONNX model: it has no graph or names no opset")
    return proto, folder


class Input:
    """An input of a model. dims: by axis a number, the name of a size, or None; dtype None: a sequence or optional."""

    def __init__(self, proto):
        self.name, kind = proto.name, proto.type
        self.optional = kind.HasField("optional_type")
        if self.optional:
            kind = kind.optional_type.elem_type
        self.sequence = kind.HasField("sequence_type")
        if self.sequence:
            kind = kind.sequence_type.elem_type
        if not kind.HasField("tensor_type"):
            raise NotImplementedError(f"from_onnx: input {self.name!r} is no tensor or sequence of tensors")
        try:
            self.dtype = tensors.dtype_of(kind.tensor_type.elem_type)
        except NotImplementedError as error:
            raise NotImplementedError(f"from_onnx: input {self.name!r}: {error}") from None
        self.dims = None
        if kind.tensor_type.HasField("shape") and not self.sequence:
            self.dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kind.tensor_type.shape.dim]

    def __str__(self):
        dims = "…" if self.dims is None else ", ".join("?" if d is None else str(d) for d in self.dims)
        return f"{self.name}: {self.dtype}[{dims}]"

    def take(self, value, sizes):
        """The array of a call, checked. sizes: what names have been so far in this call."""
        if value is None and self.optional:
            return None
        if self.sequence:
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"input {self.name!r}: expected a list of arrays, got {type(value).__name__}")
            return [self._array(part) for part in value]
        array = self._array(value)
        if self.dims is not None:
            self._check(array.shape, sizes)
        return array

    def _array(self, value):
        if type(value) is np.ndarray and value.dtype == self.dtype:
            return value
        array = np.asarray(value)
        if array.dtype != self.dtype:
            if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
                raise TypeError(f"input {self.name!r}: expected {self.dtype}, got {array.dtype}")
            array = array.astype(self.dtype)
        return array

    def _check(self, shape, sizes):
        fits = len(shape) == len(self.dims)
        for n, dim in zip(shape, self.dims):
            fits = fits and (dim is None or n == (dim if isinstance(dim, int) else sizes.setdefault(dim, n)))
        if not fits:
            named = {dim: sizes[dim] for dim in self.dims if isinstance(dim, str) and dim in sizes}
            beside = f" with {named}" if named else ""
            raise ValueError(f"input {self.name!r}: expected the shape of {self}{beside}, got {list(shape)}")


class Model:
    """An ONNX model as a function. Arrays are given by position or by name; results are one array, or a tuple of them.

    inputs, outputs: names, in order. Sizes that the model leaves open may change from call to call without compiling, but for 0
    and 1, which have graphs of their own."""

    def __init__(self, proto, folder, options, quantize=None):
        self._opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in proto.opset_import}
        functions = {(("" if f.domain == "ai.onnx" else f.domain), f.name, getattr(f, "overload", "")): f for f in proto.functions}
        self.graph = Graph(proto.graph, Scope(self._opsets, functions, folder))
        if quantize is not None:
            narrow.rewrite(self.graph, quantize)
        self._inputs = [Input(v) for v in proto.graph.input if v.name not in self.graph.constants]
        self.graph.inputs = [v.name for v in self._inputs]
        self.inputs, self.outputs = list(self.graph.inputs), list(self.graph.outputs)
        self.name = proto.graph.name
        declared = tuple(v.dims for v in self._inputs)
        flat = not any(v.sequence or v.optional for v in self._inputs)  # else leaves are not the inputs
        recorder = type("ModelRecorder", (OnnxRecorder,), {"declared": declared if flat else (), "reproducible": options["reproducible"]})
        runner = Runner(self.graph)
        runner.__name__ = self.name or "model"
        self.options = options
        self._function = Jitted(runner, **options, recorder=recorder)

    def __call__(self, *args, **kwargs):
        results = self.flat(self._arranged(args, kwargs))
        return results[0] if len(results) == 1 else tuple(results)

    def flat(self, arrays):
        """The list of results for the inputs, in order."""
        sizes = {}
        results = self._function(*[spec.take(value, sizes) for spec, value in zip(self._inputs, arrays)])
        return [np.asarray(r) if isinstance(r, np.generic) else r for r in results]

    def _arranged(self, args, kwargs):
        if len(args) > len(self.inputs):
            raise TypeError(f"the model takes {len(self.inputs)} inputs ({', '.join(self.inputs)}), got {len(args)}")
        if not kwargs and len(args) == len(self.inputs):
            return args
        given = dict(zip(self.inputs, args))
        for name, value in kwargs.items():
            if name not in self.inputs or name in given:
                problem = "two values for the input" if name in given else "no input"
                raise TypeError(f"the model has {problem} {name!r}; its inputs are {', '.join(self.inputs)}")
            given[name] = value
        missing = [v.name for v in self._inputs if v.name not in given and not v.optional]
        if missing:
            raise TypeError(f"the model needs the inputs {', '.join(map(repr, missing))}")
        return [given.get(name) for name in self.inputs]

    def save(self, path, shapes=None, isas=None, padding=None):
        """Writes the model as an archive that `hologram.load`, the command line and `libhologram_rt` run (docs/archives.md).

        shapes: by name of a size that the model leaves open a number, or (least, most); sizes without a name are called
        INPUT_AXIS. isas: instruction sets that machine code is stored for; None: the usual ones, (): none. padding: name of an
        input → a number with which it may be filled up along open sizes, without a change to the rest of the results; servers join
        requests by it. → (fingerprint, what the file holds).

        Raises NotImplementedError where one graph cannot hold the model for all of these sizes, ValueError, OSError.
        """
        return archive.write(self, path, shapes, isas, padding)

    def stats(self):
        """`fallback_ops`: what NumPy computed between graphs; `steps`: graphs apart from the others, as their shapes depend on
        values or Python decides which runs: name -> calls."""
        called = self._function.stats()["fallback_ops"]
        return {
            "fallback_ops": {name: n for name, n in called.items() if not name.startswith("onnx.")},
            "steps": {name: n for name, n in called.items() if name.startswith("onnx.")},
        }

    def reports(self):
        """What compiling did, by graph: operations before and after, kernels, milliseconds by stage."""
        return self._function.reports()

    def __repr__(self):
        return f"<hologram.onnx model {self.name!r}({', '.join(map(str, self._inputs))}) -> {', '.join(self.outputs)}>"
