# hologram/onnx/model.py: from_onnx: a model file as a function of NumPy arrays
# mypy: ignore-errors
import contextlib
import gc
from collections.abc import Iterable
from typing import Any, Optional

import numpy as np

from hologram.onnx import kept

QUANTIZE = ("dynamic-int8", "static-int8", "weight-int8", "weight-int4")


def from_onnx(
    model: Any, *, reproducible: bool = False, fast: bool = False, quantize: Optional[str] = None, calibrate: Optional[Iterable[Any]] = None
) -> "Model":
    """The ONNX model in a file, in bytes or in an onnx.ModelProto, as a function of NumPy arrays.

    Inputs are given by position or by name, of the dtypes that the model says; results are an array, or a tuple of them. Graphs are
    compiled at the first call, with the sizes that the model leaves open (names, or unknown) open. Data outside of the file is
    mapped into memory, and only from below the file's folder. What the first call of a path finds is kept in the cache folder, so that
    another process that opens the same file neither reads nor traces it.

    Args:
        reproducible: the same bits on every instruction set and thread count.
        fast: narrowing casts between operations may be dropped; products round twice where no instruction fuses (WebAssembly).
        quantize: "dynamic-int8": MatMul and Gemm by a constant matrix multiply bytes, with a scale for each column and a range for each
            row of the other factor, found in the call; "static-int8": with one range for all calls, which `calibrate` found;
            "weight-int8", "weight-int4": that matrix alone has 8 or 4 bits. Conv by a constant weight has bytes where activations have
            and float32 is not faster, its images one range for a call or for all. Gather finds rows of bytes.
        calibrate: for "static-int8" calls of the model, each an array, a tuple of arrays or a dict by name.

    Raises:
        ImportError: a package of the extra [onnx] is missing.
        NotImplementedError: an operator, element type or form that is not supported; it names the node.
        ValueError: no ONNX model, or data outside of its folder, or another word for quantize, or calibrate for another mode.
        FileNotFoundError, OSError: the file, or one with its data, cannot be read.
    """
    if quantize is not None and quantize not in QUANTIZE:
        raise ValueError(f"from_onnx: quantize: expected one of {', '.join(QUANTIZE)}, got {quantize!r}")
    calls = None if calibrate is None else list(calibrate)
    if bool(calls) != (quantize == "static-int8"):
        wanted = "None" if calls else "calls of the model"
        raise ValueError(f"from_onnx: calibrate: expected {wanted} for quantize={quantize!r}, got {len(calls or ())} calls")
    return Model(model, {"reproducible": reproducible, "fast": fast}, quantize, calls)


@contextlib.contextmanager
def _uncollected():
    """What is imported, read and traced stays: Python's collector would go through it, and all that was there before, several times,
    and once more behind it. So it counts as old at once."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            if not gc.get_freeze_count():  # else what the program froze would thaw
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class Model:
    """An ONNX model as a function. Arrays are given by position or by name; results are one array, or a tuple of them.

    inputs, outputs: names, in order. Sizes that the model leaves open may change from call to call without compiling, but for 0
    and 1, which have graphs of their own."""

    def __init__(self, source, options, quantize=None, calibrate=None):
        self._reading, self.options, self._arguments = None, options, (source, options, quantize, calibrate)
        self._called = False
        self._kept = kept.find(source, options, quantize) if calibrate is None else kept.Kept()  # nothing names calls
        found = self._kept if self._kept.graphs else self._read()
        self._inputs, self.outputs, self.name = found.inputs, list(found.outputs), found.name
        self.inputs = [spec.name for spec in self._inputs]

    def _read(self):
        """The model itself; what was kept for the first calls does without."""
        if self._reading is None:
            with _uncollected():
                from hologram.onnx.read import Reading

                self._reading = Reading(*self._arguments)
        return self._reading

    graph = property(lambda self: self._read().graph)
    _function = property(lambda self: self._read().function)

    def __call__(self, *args, **kwargs):
        results = self.flat(self._arranged(args, kwargs))
        return results[0] if len(results) == 1 else tuple(results)

    def flat(self, arrays):
        """The list of results for the inputs, in order."""
        sizes = {}
        arrays = [spec.take(value, sizes) for spec, value in zip(self._inputs, arrays)]
        results = self._kept.call(arrays) if self._kept.graphs else None
        if results is not None:
            return results
        with contextlib.nullcontext() if self._called else _uncollected():
            results = self._function(*arrays)
        self._called = True
        self._kept.keep(self, arrays)
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
        from hologram.onnx import archive

        return archive.write(self, path, shapes, isas, padding)

    def stats(self):
        """`fallback_ops`: what NumPy computed between graphs; `steps`: graphs apart from the others, as their shapes depend on
        values or Python decides which runs: name -> calls."""
        called = self._reading.function.stats()["fallback_ops"] if self._reading is not None else {}
        return {
            "fallback_ops": {name: n for name, n in called.items() if not name.startswith("onnx.")},
            "steps": {name: n for name, n in called.items() if name.startswith("onnx.")},
        }

    def reports(self):
        """What compiling did, by graph: operations before and after, kernels, milliseconds by stage."""
        own = self._reading.function.reports() if self._reading is not None else []
        return self._kept.reports() + own

    def __repr__(self):
        return f"<hologram.onnx model {self.name!r}({', '.join(map(str, self._inputs))}) -> {', '.join(self.outputs)}>"
