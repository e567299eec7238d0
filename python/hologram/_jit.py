# hologram/_jit.py: NumPy functions as fused native kernels
# mypy: disable-error-code="no-any-return,return-value"
"""`hologram.jit`: a function over NumPy arrays, traced once and compiled into few kernels."""

import functools
from typing import Any, Callable, Optional

import numpy as np

from hologram import _core, _products, _selection, _series, _shapes, _tables, numpy_functions  # noqa: F401  (they fill a table)
from hologram.trace import Array, Dim, Tracer, TraceError

__all__ = ["Jitted", "TraceError", "jit"]

_MOST_GRAPHS = 64  # that are tried for arguments of one nesting
_MOST_IN_ALL = 256  # of one function


def jit(function: Optional[Callable[..., Any]] = None, *, reproducible: bool = False, fast: bool = False) -> Any:
    """Compiles a function of NumPy arrays (and Buffers, which count as one-dimensional and say on which backend it runs).

    At the first call the function runs once on stand-ins that understand NumPy's operators, ufuncs and many of its functions;
    what it computes becomes a graph and few native kernels. Sizes other than 0 and 1 stay open: arrays of the same dtypes and
    numbers of dimensions use the same kernels, unless the function looked at a size. Python floats are arguments like arrays;
    other values (int, bool, str, None) are part of the program and compile another one when they change.

    Results are those of NumPy's promotion rules. The function should have no side effects and must not decide by values of
    arrays (`numpy.where` does that). With `out=` (an array or a tuple of them) results are written there.

    Args:
        reproducible: the same bits on every instruction set and thread count.
        fast: narrowing casts between operations may be dropped.

    Raises:
        TraceError: the function asks for what is not known while tracing, or is not supported.
        ValueError: Buffers on more than one backend.
        ZeroDivisionError, IndexError: integers divided by zero, indices out of range.
    """
    if function is None:
        return functools.partial(jit, reproducible=reproducible, fast=fast)
    return Jitted(function, reproducible, fast)


class Jitted:
    """What `hologram.jit` returns: call it like the function."""

    def __init__(self, function: Callable[..., Any], reproducible: bool, fast: bool) -> None:
        self._function = function
        self._options = {"reproducible": reproducible, "fast": fast}
        self._graphs: dict[Any, list[_Compiled]] = {}  # by nesting; both in the order of their last use, lists from the latest
        self._flat: list[_Compiled] = []
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is not None and type(out) is not tuple:
            out = (out,)
        if not kwargs:
            for compiled in self._flat:
                results = compiled.call(args, out)
                if results is not None:
                    _use(self._flat, compiled)
                    return compiled.finish(results, out)
        leaves: list[Any] = []
        structure = (_flatten(args, leaves), _flatten(kwargs, leaves))
        flat = tuple(leaves)
        graphs = self._graphs.get(structure, [])
        for compiled in graphs:
            results = compiled.call(flat, out)
            if results is not None:
                _use(graphs, compiled)
                self._graphs[structure] = self._graphs.pop(structure, graphs)
                return compiled.finish(results, out)
        compiled = _Compiled(self._function, structure, flat, self._options)
        graphs = self._graphs[structure] = self._graphs.pop(structure, graphs)
        graphs.insert(0, compiled)
        del graphs[_MOST_GRAPHS:]
        self._forget(graphs)
        if not kwargs and all(part == "leaf" for part in structure[0][1:]):
            self._flat = graphs
        results = compiled.call(flat, out)
        assert results is not None, "a graph must fit the arguments it was traced with"
        return compiled.finish(results, out)

    def _forget(self, latest: list["_Compiled"]) -> None:
        """Drops the graphs of the nestings whose last use is longest ago, but for these, while there are too many."""
        total = sum(map(len, self._graphs.values()))
        for structure, graphs in list(self._graphs.items()):
            if total <= _MOST_IN_ALL:
                return
            if graphs is not latest and graphs is not self._flat:  # calls that _flat serves do not count as uses
                total -= len(self._graphs.pop(structure, ()))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def reports(self) -> list[dict[str, Any]]:
        """What compiling did, by graph: operations before and after, kernels, milliseconds by stage."""
        return [compiled.executable.report for graphs in self._graphs.values() for compiled in graphs]

    def dump(self, stage: str = "atlas") -> list[str]:
        """The kernels of the latest graph as text: "atlas", "llvm" or "asm"."""
        latest = next((graphs[0] for graphs in reversed(self._graphs.values()) if graphs), None)
        return [] if latest is None else latest.executable.dump(stage)

    def __repr__(self) -> str:
        count = sum(len(graphs) for graphs in self._graphs.values())
        return f"<hologram.jit of {getattr(self, '__qualname__', self._function)}, {count} graphs>"


def _use(graphs: list["_Compiled"], compiled: "_Compiled") -> None:
    """Puts the graph of this call first, where the next call looks first and what is forgotten is farthest."""
    if graphs[0] is not compiled:
        graphs[:] = [compiled, *(other for other in graphs if other is not compiled)]


class _Compiled:
    """One graph with its arguments' pattern; `call` gives None for arguments that it is not for."""

    def __init__(self, function: Callable[..., Any], structure: Any, leaves: tuple[Any, ...], options: Any) -> None:
        tracer = Tracer()
        stand_ins = [tracer.argument(leaf) for leaf in leaves]
        source = iter(stand_ins)
        args = _unflatten(structure[0], source)
        kwargs = _unflatten(structure[1], source)
        returned = function(*args, **kwargs)
        values: list[Any] = []
        self._structure = _flatten(returned, values)
        self._plan: list[Any] = []  # per returned leaf: its result's position, or (value,)
        outputs: list[Array] = []
        for value in values:
            if isinstance(value, Dim):
                value = int(value)
            if isinstance(value, _selection.Selection):
                raise TraceError("hologram.jit: the size of x[mask] depends on values: reduce it, or use numpy.where")
            if isinstance(value, Array):
                if value.tracer is not tracer:
                    raise TraceError("hologram.jit: a value of another trace was returned")
                self._plan.append(len(outputs))
                outputs.append(value)
            else:
                self._plan.append((value[()] if isinstance(value, np.ndarray) and not value.ndim else value,))
        results = [tracer.output(value) for value in outputs]
        executable = _core.compile(tracer.graph, _core.shared_runtime(_backend(leaves)), [], **options)
        self._constants = tuple(tracer.constants)
        self._single = self._structure == "leaf" and self._plan == [0]
        self._call = _core.ArrayCall(
            executable, tracer.graph, tracer.patterns, results, list(tracer.guards.values())
        )
        self._scalars = [not shape for _, shape in results]

    @property
    def executable(self) -> Any:
        return self._call.executable

    def call(self, leaves: tuple[Any, ...], out: Any) -> Optional[list[Any]]:
        return self._call(leaves + self._constants if self._constants else leaves, out)

    def finish(self, results: list[Any], out: Any) -> Any:
        if out is None and True in self._scalars:
            results = [r[()] if scalar else r for r, scalar in zip(results, self._scalars)]
        if self._single:
            return results[0]
        source = iter([results[p] if isinstance(p, int) else p[0] for p in self._plan])
        return _unflatten(self._structure, source)


def _backend(leaves: tuple[Any, ...]) -> Optional[str]:
    """Where the graph runs: on the backend of the Buffers among its arguments; None: on the best one."""
    names = sorted({leaf.executor.backend for leaf in leaves if isinstance(leaf, _core.Buffer)})
    if len(names) > 1:
        raise ValueError(f"hologram.jit: the buffers are on the backends {' and '.join(names)}; they must be on one")
    return names[0] if names else None


def _flatten(value: Any, leaves: list[Any]) -> Any:
    """The nesting of tuples, lists and dicts as a hashable value; leaves are appended to `leaves`."""
    if type(value) in (tuple, list):
        return (type(value), *[_flatten(v, leaves) for v in value])
    if type(value) is dict:
        return (dict, tuple(value), *[_flatten(v, leaves) for v in value.values()])
    leaves.append(np.asarray(value) if isinstance(value, np.generic) else value)
    return "leaf"


def _unflatten(structure: Any, source: Any) -> Any:
    if structure == "leaf":
        return next(source)
    if structure[0] is dict:
        return {key: _unflatten(s, source) for key, s in zip(structure[1], structure[2:])}
    return structure[0](_unflatten(s, source) for s in structure[1:])

