# hologram/archive.py: compiled models in a file
# mypy: disable-error-code="no-any-return"
"""`hologram.load`: models that `hologram_torch.export` has written, called with NumPy arrays alone."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np

from hologram import _core

__all__ = ["Archive", "Method", "Session", "load"]


def load(
    path: Union[str, os.PathLike[str]],
    *,
    backend: str = "auto",
    verify: str = "index",
    fingerprint: Optional[str] = None,
    trust: Optional[bool] = None,
    bfloat16: Optional[str] = None,
) -> Archive:
    """Opens an archive; its weights are mapped into memory, not read.

    path: a file that `hologram_torch.export` wrote. backend: where methods run, as in Executor. verify: "index" compares
    header, index and graphs with their checksums, "full" everything else too (which reads the whole file). bfloat16: what
    results of that dtype, which NumPy lacks, come as: "ml_dtypes" (arrays of that package's bfloat16), "float32" (the same
    values), "uint16" (the bits, as inputs take them); None: the first where ml_dtypes is installed, else the second.

    Machine code in the file runs, with all rights of this process, only if the archive is trusted: if `fingerprint` is given
    and is the archive's, if `trust` is True, or, where it is None, if the user's list names the archive (export() adds those
    that it writes, `hologram archive trust FILE` others). Without that, or without code for this machine, methods are
    compiled from their graphs, of which nothing is trusted: damaged and hostile files are refused.

    Raises:
        FileNotFoundError, OSError: the file cannot be read.
        HologramError: it is no archive, damaged, or not the one that `fingerprint` names.
        NotImplementedError: it was written for a later version.
        ValueError: `verify` or `bfloat16` is none of these words.
        ImportError: `bfloat16` is "ml_dtypes", and that package is missing.
    """
    bfloat16 = _bfloat16_of(bfloat16)
    native = _core.Archive.open(os.fspath(path), verify=verify)
    if fingerprint is not None and native.fingerprint != fingerprint.lower():
        raise _core.HologramError(f"{native.name}: its fingerprint is {native.fingerprint}, expected {fingerprint}")
    if trust is None:
        trust = fingerprint is not None or _core.archive_is_trusted(native.fingerprint)
    return Archive(native, _runtime(backend), trust, bfloat16)


def _has_ml_dtypes() -> bool:
    """Imports it, which takes longer than opening an archive: asked only where there is bfloat16."""
    return not isinstance(_core.numpy_dtype("bfloat16"), str)


def _bfloat16_of(wanted: Optional[str]) -> Optional[str]:
    if wanted not in (None, "ml_dtypes", "float32", "uint16"):
        raise ValueError(f'bfloat16 is "ml_dtypes", "float32" or "uint16", not {wanted!r}')
    if wanted == "ml_dtypes" and not _has_ml_dtypes():
        raise ImportError('load(bfloat16="ml_dtypes") needs the package ml_dtypes')
    return wanted


def _runtime(backend: str) -> Any:
    return _core.shared_runtime(None if backend == "auto" else backend)


class Archive:
    """An open archive. Calling it calls its method "forward", or its only one.

    methods: name → Method. tensors: name → read-only NumPy array of the file's content. trusted: whether machine code in it
    may run.
    """

    def __init__(self, native: Any, runtime: Any, trusted: bool = False, bfloat16: Optional[str] = None) -> None:
        self._native = native
        self._runtime = runtime
        self._bfloat16 = _bfloat16_of(bfloat16)
        self.trusted = trusted
        self._weights = _core.ArchiveWeights(native)
        self._replaced: dict[str, Any] = {}
        self.methods = {info["name"]: Method(self, info) for info in native.methods}

    @property
    def path(self) -> str:
        return self._native.name

    @property
    def fingerprint(self) -> str:
        """Names the whole content, in hexadecimal digits."""
        return self._native.fingerprint

    @property
    def tensors(self) -> Mapping[str, Any]:
        return _Tensors(self._native, self._replaced)

    def replace(self, name: str, array: Any) -> None:
        """Puts a copy of `array` in the place of a tensor, for calls that begin afterwards; the file stays as it is.

        Its dtype and shape must be the tensor's (bfloat16: uint16 with the bits is taken too). Another name of the same content
        keeps it.

        Raises KeyError for an unknown name, ValueError for another dtype or shape, and for state, which belongs to sessions.
        """
        wanted = self.tensors[name]
        array = np.array(array, order="C", copy=True)
        self._weights.replace(name, array)
        array = array.view(wanted.dtype)
        array.setflags(write=False)
        self._replaced[name] = array

    def info(self) -> dict[str, Any]:
        """What the file holds, as plain data."""
        tensors = self._native.tensors
        info = {
            "path": self.path,
            "producer": self._native.producer,
            "fingerprint": self.fingerprint,
            "bytes": self._native.size,
            "trusted": self.trusted,
            "targets": list(dict.fromkeys(code["target"] for code in self._native.precompiled)),
            "code_bytes": sum({code["code"]: code["code_bytes"] for code in self._native.precompiled}.values()),
            "tensors": len(tensors),
            "tensor_bytes": sum({t["offset"]: t["bytes"] for t in tensors}.values()),
            "state_bytes": sum(t["bytes"] for t in tensors if t["state"]),
            "methods": {
                name: {"inputs": m.inputs, "results": m.results, "sizes": m.sizes, "left": m.left} for name, m in self.methods.items()
            },
        }
        texts = {code["method"]: _kernels_of(code["about"], self.path) for code in self._native.precompiled if "about" in code}
        return info | ({"wgsl": texts} if texts else {})

    def verify(self) -> None:
        """Compares everything with its checksums; HologramError names what differs."""
        self._native.verify()

    def verify_code(self) -> None:
        """Compiles every method again and compares with the archive's machine code, byte for byte.

        HologramError names what differs; NotImplementedError: another version of the code generator made it.
        """
        self._native.verify_code(self._runtime)

    def write_with_targets(self, path: Union[str, os.PathLike[str]], isas: Sequence[str]) -> str:
        """Writes the archive with machine code for more instruction sets (sse42, avx2, avx512, amx, neon, wasm32-simd128; wgsl) to
        `path`, which may be its own. → the fingerprint of that file, which is not on the list of trusted ones."""
        return self._native.with_targets(os.fspath(path), self._runtime, list(isas))

    def session(self) -> Session:
        """A copy of the archive's state (KV caches, buffers that methods write) and methods that use it."""
        return Session(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _main(self.methods)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<hologram.Archive {self.path!r}: {', '.join(self.methods) or 'no methods'}>"


class Session:
    """State of its own. Calls on one session run one after the other; `reset` brings the first state back."""

    def __init__(self, archive: Archive) -> None:
        self._native = _core.ArchiveSession(archive._native)
        self.methods = {name: method._on(self._native) for name, method in archive.methods.items()}

    def reset(self) -> None:
        self._native.reset()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _main(self.methods)(*args, **kwargs)


def _main(methods: dict[str, Method]) -> Method:
    if "forward" in methods or len(methods) == 1:
        return methods.get("forward") or next(iter(methods.values()))
    raise TypeError(f"the archive has the methods {', '.join(methods)}: call one of `methods`")


class Method:
    """A function of the archive, compiled at its first call.

    inputs, results: per array its name, dtype and shape; sizes: name of a size that calls choose → (least, most);
    left: names of operators that PyTorch runs (export's allow_torch); padding: name of an input → with what it may be filled up
    along open sizes (export's padding).
    Arguments are those of the model: arrays by position or by name, nested as the model's are. Numbers, strings and None
    are part of the program: they may be left out, and must otherwise be what they were when it was exported.
    """

    def __init__(self, archive: Archive, info: dict[str, Any], session: Any = None, made: Any = None) -> None:
        self._archive, self._info, self._session = archive, info, session
        try:
            structure = json.loads(info["structure"]) if info["structure"] else {}
            self._arguments = [(name, tree) for name, tree in structure["arguments"]] if "arguments" in structure else None
            self._outputs = structure.get("outputs")
            self.padding = {str(name): float(value) for name, value in structure.get("padding", {}).items()}
            if self._arguments is not None:
                leaves = [leaf for name, tree in self._arguments for leaf in _checked(tree, "input")]
                if sorted(leaves) != list(range(len(info["inputs"]))) or not all(name.isprintable() for name, _ in self._arguments):
                    raise ValueError("arguments that are not its inputs")
            steps = structure.get("steps")
            self.results = info["results"] if steps is None else [_of_steps(i, r) for i, r in enumerate(steps["results"])]
            if self._outputs is not None and not set(_checked(self._outputs, "result")) <= set(range(len(self.results))):
                raise ValueError("a result that is not there")
            calls = structure.get("torch", []) if steps is None else [step for step in steps["run"] if "operator" in step]
            self.left = sorted({"::".join(call["operator"][:2]) for call in calls if call is not None})
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise _core.HologramError(f'{archive.path}: method "{info["name"]}": nesting that cannot be read: {error}') from None
        self._made = made if made is not None else _Made(archive, info, calls, ", ".join(self.left), steps)
        plain = self._arguments is not None and [tree for _, tree in self._arguments] == [
            {"input": i} for i in range(len(self.inputs))
        ]
        self._plain = len(self.inputs) if plain else -1

    name = property(lambda self: self._info["name"])
    inputs = property(lambda self: self._info["inputs"])
    sizes = property(lambda self: self._info["sizes"])
    has_state = property(lambda self: self._made.function().has_state, doc="Whether it keeps state: it is called on a session.")

    def _on(self, session: Any) -> Method:
        return Method(self._archive, self._info, session, self._made)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == self._plain:
            arrays = [a if type(a) is np.ndarray else np.asarray(a) for a in args]
        else:
            arrays = self._arrays(args, kwargs)
        results = self._made.function()(arrays, self._session)
        return results if self._outputs is None else _build(self._outputs, results)

    def flat(self, arrays: list[Any]) -> list[Any]:
        """The results, by number, for the arrays of `inputs`, in order."""
        return self._made.function()([np.asarray(a) for a in arrays], self._session)

    def _arrays(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if self._arguments is None:
            if kwargs:
                raise TypeError(f"{self.name}() takes its arrays by position")
            return [np.asarray(a) for a in args]
        names = [name for name, _ in self._arguments]
        if len(args) > len(names):
            raise TypeError(f"{self.name}() takes {len(names)} arguments ({', '.join(names)}), got {len(args)}")
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in names or name in given:
                problem = "got two values for" if name in given else "has no argument"
                raise TypeError(f"{self.name}() {problem} {name!r}; its arguments are {', '.join(names)}")
            given[name] = value
        arrays: list[Any] = [None] * len(self.inputs)
        for name, tree in self._arguments:
            if name in given:
                _take(tree, given[name], name, arrays)
            elif next(_inputs(tree), None) is not None:
                raise TypeError(f"{self.name}() needs the argument {name!r}")
        return arrays

    def __repr__(self) -> str:
        arrays = ", ".join(f"{i['name']}: {i['dtype']}[{', '.join(map(str, i['shape']))}]" for i in self.inputs)
        return f"<hologram method {self.name}({arrays})>"


class _Made:
    """The compiled function, made once for a method and those of its sessions."""

    def __init__(
        self, archive: Archive, info: dict[str, Any], calls: Sequence[dict[str, Any]], operators: str, steps: Optional[dict[str, Any]]
    ) -> None:
        self._archive, self._name, self._calls, self._operators, self._steps = archive, info["name"], calls, operators, steps
        results = info["results"] if steps is None else steps["results"]
        self._bfloat16 = [i for i, result in enumerate(results) if result.get("dtype") == "bfloat16"]
        self._lock = threading.Lock()
        self._function: Any = None

    def function(self) -> Any:
        if self._function is None:
            with self._lock:
                if self._function is None:
                    self._function = self._make()
        return self._function

    def _make(self) -> Any:
        archive = self._archive
        host: Any = self._host() if self._calls or self._steps else None
        native = archive._native.function(self._name, archive._runtime, archive.trusted, archive._weights, host is not None)
        how = "ml_dtypes"
        if self._bfloat16:
            how = archive._bfloat16 or ("ml_dtypes" if _has_ml_dtypes() else "float32")
        if host is None and how == "ml_dtypes":
            return native

        def call(arrays: list[Any], session: Any) -> Any:
            if self._steps is None:
                results = native(arrays, session, host, how != "ml_dtypes")
            else:  # the graph is one call, which takes the arrays as the method wants them
                run = host()
                native(arrays, session, run, True)
                results = run.results
                for i in self._bfloat16 if how == "ml_dtypes" else ():
                    results[i] = results[i].view(_core.numpy_dtype("bfloat16"))
            for i in self._bfloat16 if how == "float32" else ():
                results[i] = np.asarray(np.left_shift(results[i], 16, dtype=np.uint32)).view(np.float32)
            return results

        call.precompiled = native.precompiled  # type: ignore[attr-defined]
        call.has_state = native.has_state  # type: ignore[attr-defined]
        return call

    def _host(self) -> Any:
        """Operators that export(allow_torch=True) left to PyTorch: they do whatever their arguments, which the file names, say.
        What runs them is an entry point of the package that writes such archives: this one knows no PyTorch."""
        where = f'{self._archive.path}: method "{self._name}" calls operators of PyTorch ({self._operators})'
        if not self._archive.trusted:
            raise _core.HologramError(f"{where}, which run in trusted archives only: pass fingerprint= or trust=True")
        from importlib import metadata  # takes longer to import than this module

        kind = "calls" if self._steps is None else "steps"
        found = list(metadata.entry_points(group="hologram.operators", name=kind))
        if not found:
            raise NotImplementedError(f'{where}: no installed package offers to run them (entry point "{kind}" of hologram.operators)')
        try:
            runs = found[0].load()
        except ImportError as error:
            raise NotImplementedError(f"{where}: {error}") from None
        return runs(self._calls if self._steps is None else self._steps)


class _Tensors(Mapping[str, Any]):
    def __init__(self, native: Any, replaced: Mapping[str, Any]) -> None:
        self._native, self._replaced = native, replaced
        self._numbers = {t["name"]: (number, t) for number, t in enumerate(native.tensors)}

    def __getitem__(self, name: str) -> Any:
        if name in self._replaced:
            return self._replaced[name]
        number, t = self._numbers[name]
        dtype = _core.numpy_dtype(t["dtype"])
        flat = self._native.tensor(number).view(np.uint16 if isinstance(dtype, str) else dtype)  # NumPy alone has no bfloat16
        strides = [n * flat.itemsize for n in t["strides"]]
        return np.lib.stride_tricks.as_strided(flat, t["shape"], strides, writeable=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def _kernels_of(about: bytes, path: str) -> dict[str, Any]:
    """Of a method's WGSL: how many kernels there are, and by number why some are left to the host."""
    try:
        said = json.loads(about.removeprefix(b"wgsl "))
        return {"kernels": int(said["kernels"]), "host": {int(number): str(why) for number, why in said["host"].items()}}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise _core.HologramError(f"{path}: WGSL that cannot be read: {error}") from None


def _of_steps(number: int, result: dict[str, Any]) -> dict[str, Any]:
    """A result as `results` shows it; sizes that only its values tell have names."""
    return {"name": f"result{number}", "dtype": result.get("dtype", "int"), "shape": tuple(result.get("shape", ()))}


def _checked(tree: Any, leaf: str) -> Iterator[int]:
    """The numbers of the leaves of this kind in a tree that a file has; ValueError and the like where it is none."""
    ((kind, content),) = tree.items()
    if kind == leaf and type(content) is int:
        yield content
    elif kind == "dict" or (kind in ("tuple", "list") and isinstance(content, list)):
        for part in content.values() if kind == "dict" else content:
            yield from _checked(part, leaf)
    elif kind != "value" or isinstance(content, (list, dict)):
        raise ValueError(f"a part that is no {leaf}")


def _inputs(tree: Any) -> Iterator[int]:
    (kind, content), *_ = tree.items()
    if kind == "input":
        yield content
    elif kind in ("tuple", "list"):
        for part in content:
            yield from _inputs(part)
    elif kind == "dict":
        for part in content.values():
            yield from _inputs(part)


def _take(tree: Any, value: Any, where: str, arrays: list[Any]) -> None:
    """Puts the arrays of an argument where the tree says."""
    (kind, content), *_ = tree.items()
    if kind == "input":
        arrays[content] = np.asarray(value)
    elif kind == "value":
        if type(value) is not type(content) or value != content:
            raise ValueError(f"{where} is {value!r}; the archive was exported for {content!r}")
    elif kind == "dict":
        if not isinstance(value, Mapping) or set(value) != set(content):
            raise TypeError(f"{where} must be a dict with the keys {', '.join(map(repr, content))}")
        for key, part in content.items():
            _take(part, value[key], f"{where}[{key!r}]", arrays)
    else:
        if not isinstance(value, (tuple, list)) or len(value) != len(content):
            raise TypeError(f"{where} must be a {kind} of {len(content)}")
        for i, part in enumerate(content):
            _take(part, value[i], f"{where}[{i}]", arrays)


def _build(tree: Any, results: list[Any]) -> Any:
    (kind, content), *_ = tree.items()
    if kind == "result":
        return results[content]
    if kind == "value":
        return content
    if kind == "dict":
        return {key: _build(part, results) for key, part in content.items()}
    parts = [_build(part, results) for part in content]
    return tuple(parts) if kind == "tuple" else parts
