# hologram/onnx/kept.py: what calls of model files found, in the cache folder for other processes
# mypy: ignore-errors
"""The first call of a model compiles quickly. After it a thread compiles well, for the calls that follow, and writes the graph that it
traced from a file, and the weights, as an archive into the cache folder; a process ends when that is done. The archive's name is made of
what the system says about the file (its place, size and times), of samples of its content, and of what it is traced with. A process that
finds such an archive calls it, and imports neither the package `onnx` nor the operators' rows. Its machine code is for this processor and
number of threads, and trusted as the kernels beside it are: the folder is this user's alone."""

import contextlib
import functools
import os
import threading
import time

import numpy as np

from hologram import _core
from hologram.onnx.inputs import Input

MOST = 4  # archives of one file: sizes of 1 have graphs of their own
LARGEST = (1 << 31) - 1
BOUNDS = (LARGEST, 512)  # that open sizes may have, where the model allows it: 512 positions are what many models know
SETTLED = 2  # seconds; the times of a file that was changed later may stay when it is changed again
SAMPLES, SAMPLE = 16, 4096


def identity(path):
    """What names the content of a file without reading all of it."""
    s = os.stat(path)
    found = [repr((os.path.abspath(path), s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)).encode()]
    with open(path, "rb", buffering=0) as file:
        for i in range(SAMPLES):
            file.seek(max(s.st_size - SAMPLE, 0) * i // (SAMPLES - 1))
            found.append(file.read(SAMPLE))
    return _core.fingerprint(b"".join(found))


def _own():
    """What traces: the version, and the files of this library as they are."""
    folder = os.path.dirname(os.path.dirname(__file__))
    files = [e for f in (folder, os.path.dirname(__file__)) for e in os.scandir(f) if e.name.endswith((".py", ".so"))]
    return _core.__version__, sorted((e.path, e.stat().st_mtime_ns, e.stat().st_size) for e in files)


def find(source, options, quantize):
    """What is kept for a model; nothing for one that is no file, nor where the cache is off."""
    if not isinstance(source, (str, os.PathLike)):
        return Kept()
    try:
        runtime, file = _core.shared_runtime(None), identity(source)
    except OSError:  # reading the model says it better
        return Kept()
    place = runtime.cache_place("onnx")
    if place is None:
        return Kept(source, file)
    kept = Kept(source, file, lambda: _names(repr((file, _own(), runtime.code_key, sorted(options.items()), quantize))))
    with contextlib.suppress(OSError):  # no folder yet
        if any(len(name) == 2 for name in os.listdir(os.path.dirname(os.path.dirname(place)))):
            kept.open(runtime)
    return kept


def _names(what):
    name = _core.fingerprint(what.encode())
    return [f"onnx {name} {i}" for i in range(MOST)]


class Kept:
    """The archives of a file. graphs: those that are there, what sizes they are for and their methods; then also inputs (Inputs),
    outputs (names) and name."""

    def __init__(self, source=None, file=None, names=None):
        self.graphs, self.tried = [], set()
        self.source, self.file, self._named = source, file, names
        self.wanted = names is not None  # whether further archives are
        self.inputs, self.outputs, self.name = None, None, None
        self._writing = None  # the last thread

    @functools.cached_property
    def names(self):
        """Those of archives that are not there."""
        return self._named()

    def open(self, runtime):
        places = [(name, runtime.cache_place(name)) for name in self.names]
        places = [(name, path) for name, path in places if os.path.exists(path)]
        if not places:
            return
        import json

        from hologram.archive import load

        for name, path in places:
            try:
                method = load(path, trust=True).methods["forward"]
                said = json.loads(method._info["structure"])["onnx"]
                if not self._still(said["files"]):
                    continue
                os.utime(path)  # used recently
            except (OSError, ValueError, KeyError, TypeError, _core.HologramError, NotImplementedError):
                continue  # none, or a damaged one
            self.names.remove(name)
            self.graphs.append((said["sizes"], method))
            self.inputs = [Input(name, _dtype(dtype), dims) for name, dtype, dims in said["inputs"]]
            self.outputs, self.name = said["outputs"], said["name"]
        self.wanted = bool(self.names)

    @staticmethod
    def _still(files):
        return all(identity(path) == was for path, was in files)

    def call(self, arrays):
        """The list of results; None where no graph is for these sizes."""
        sizes = None
        for ranges, method in self.graphs:
            if ranges and sizes is None:
                sizes = self._sizes(self.inputs, arrays)
            if all(least <= sizes[name] <= most for name, (least, most) in ranges.items()):
                try:
                    return method.flat(arrays)
                except ValueError:  # sizes beyond what it was traced for; what is wrong with a call, the model itself says too
                    continue
        return None

    @staticmethod
    def _sizes(inputs, arrays):
        return {d: n for spec, array in zip(inputs, arrays) for d, n in zip(spec.named(), array.shape) if not isinstance(d, int)}

    def keep(self, model, arrays):
        """After a call that the model itself served: its results wait neither for good kernels nor for the disk."""
        sizes = self._to_be_written(model, arrays)
        if sizes is None and not model._function.unfinished:
            return
        model._function.unfinished = False
        writing = threading.Thread(target=self._try, args=(model, sizes, self._writing), name="hologram.onnx.kept")
        with contextlib.suppress(RuntimeError):  # no more threads, or the process ends
            writing.start()
            self._writing = writing

    def _to_be_written(self, model, arrays):
        """The sizes that a further archive would be for; None: nothing is to be written."""
        if not self.wanted or any(spec.dims is None or spec.sequence or spec.optional for spec in model._inputs):
            return None
        sizes = self._sizes(model._inputs, arrays)
        ones = frozenset(name for name, n in sizes.items() if n == 1)
        if 0 in sizes.values() or ones in self.tried:
            return None
        self.tried.add(ones)
        if any(model.stats().values()):  # steps between graphs have no place in an archive
            self.wanted = False
            return None
        return sizes

    def _try(self, model, sizes, before):
        if before is not None:
            before.join()
        try:
            model._function.finish()
        except Exception as error:  # calls go on with what they have
            from hologram._log import log

            log.warning("an ONNX model stays at its first kernels, which are slow: %s: %s", type(error).__name__, error)
            self.wanted = False
            return
        try:
            if sizes is not None:
                self._write(model, sizes)
        except Exception:  # the call has its results: what no archive can hold, or no disk, is traced in each process
            self.wanted = False

    def finish(self):
        """Waits until what was called is written."""
        if self._writing is not None:
            self._writing.join()

    def _write(self, model, sizes):
        from hologram import _export
        from hologram.onnx import archive

        runtime, reading = _core.shared_runtime(None), model._read()
        files = [(os.fspath(self.source), self.file), *reading.files]
        newest = max(os.stat(path).st_mtime for path, _ in files)
        weights = sum(array.nbytes for array in reading.graph.constants.values())
        if not self._still(files) or newest > time.time() - SETTLED or weights > runtime.cache_limit // 2:
            return
        said = {
            "files": files[1:], "name": model.name, "outputs": model.outputs,
            "inputs": [(spec.name, spec.dtype.name, spec.dims) for spec in model._inputs],
        }  # fmt: skip
        path = runtime.cache_place(self.names[0], True) if self.names else None
        if path is None:
            return
        # Guards are tried at the ends of the ranges; sizes of 1 are apart, as in calls of the model itself.
        for most in BOUNDS if any(n > 1 for n in sizes.values()) else BOUNDS[:1]:
            ranges = {name: (1, 1) if n == 1 else (2, max(most, n)) for name, n in sizes.items()}
            try:
                archive.write(model, path, ranges, _export.HERE, None, {"onnx": {**said, "sizes": ranges}})
            except NotImplementedError:
                continue
            self.names.pop(0)
            self.wanted = bool(self.names)
            runtime.cache_placed(os.path.getsize(path))
            return

    def reports(self):
        return [method._made.function().executable.report for _, method in self.graphs if method._made._function is not None]


def _dtype(name):
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)
