# hologram/_jit.py: NumPy functions as fused native kernels
# mypy: disable-error-code="no-any-return,return-value"
"""`hologram.jit`: a function over NumPy arrays, traced once and compiled into few kernels."""

import collections
import functools
from typing import Any, Callable, Iterator, Optional

import numpy as np

from hologram import _core, _dump, _steps
from hologram._plan import Plan, write_results
from hologram._registry import HOOKS
from hologram.trace import Array, Dim, Parted, TraceError

__all__ = ["Jitted", "TraceError", "jit"]

_MOST_GRAPHS = 64  # that are tried for arguments of one nesting
_MOST_IN_ALL = 256  # of one function


def jit(function: Optional[Callable[..., Any]] = None, *, reproducible: bool = False, fast: bool = False) -> Any:
    """Compiles a function of NumPy arrays (and Buffers, which count as one-dimensional and say on which backend it runs).

    At the first call the function runs once on stand-ins that understand NumPy's operators, ufuncs and functions; what it
    computes becomes a graph and few native kernels, with calls of NumPy between graphs for what has no native form (`stats()`).
    Sizes other than 0 and 1 stay open: arrays of the same dtypes and numbers of dimensions use the same kernels, unless the
    function looked at a size. Python floats are arguments like arrays; other values (int, bool, str, None) are
    part of the program and compile another one when they change.

    Results are those of NumPy's promotion rules. The function should have no side effects and must not decide by values of
    arrays (`numpy.where` does that). With `out=` (an array or a tuple of them) results are written there.

    Args:
        reproducible: the same bits on every instruction set and thread count.
        fast: narrowing casts between operations may be dropped; products round twice where no instruction fuses (WebAssembly).

    Raises:
        TraceError: the function asks for what is not known while tracing.
        ValueError: Buffers on more than one backend.
        ZeroDivisionError, IndexError: integers divided by zero, indices out of range.
    """
    if function is None:
        return functools.partial(jit, reproducible=reproducible, fast=fast)
    return Jitted(function, reproducible, fast)


class Jitted:
    """What `hologram.jit` returns: call it like the function."""

    def __init__(
        self, function: Callable[..., Any], reproducible: bool, fast: bool, recorder: Any = _steps.Recorder, quickly: bool = False
    ) -> None:
        self._function, self._recorder = function, recorder
        self._options = {"reproducible": reproducible, "fast": fast, "quickly": quickly}
        self.unfinished = quickly  # whether there may be graphs for finish()
        self._graphs: dict[Any, list[_Compiled]] = {}  # by nesting; both in the order of their last use, lists from the latest
        self._flat: list[_Compiled] = []
        self._quick: Any = None  # the steps of the first of _flat as one function
        self._names: collections.Counter[str] = collections.Counter()  # what NumPy was called for
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        quick = self._quick
        if quick is not None and out is None and not kwargs:
            try:
                return quick(args)
            except Parted as parted:
                given = parted.given
            first: Any = self._flat[0]
            results = None if given is None else first.call(args, None, given)
            if results is not None:
                return first.finish(results, None)
        if out is not None and type(out) is not tuple:
            out = (out,)
        if not kwargs:
            for compiled in self._flat:
                results = compiled.call(args, out)
                if results is not None:
                    self._use(self._flat, compiled)
                    return compiled.finish(results, out)
        leaves: list[Any] = []
        structure = (_flatten(args, leaves), _flatten(kwargs, leaves))
        flat = tuple(leaves)
        graphs = self._graphs.get(structure, [])
        for compiled in graphs:
            results = compiled.call(flat, out)
            if results is not None:
                self._use(graphs, compiled)
                self._graphs[structure] = self._graphs.pop(structure, graphs)
                return compiled.finish(results, out)
        if any(map(_steps.strange, flat)):
            return self._untraced(args, out, kwargs)
        traced = next((leaf for leaf in flat if isinstance(leaf, Array)), None)
        if traced is not None and out is None:  # called by a function that is traced: part of that
            from hologram._creation import seen

            return seen(self._function, traced.tracer)(*args, **kwargs)
        compiled = _compile(self._function, structure, flat, self._options, self._names, self._recorder)
        self.unfinished = self._options["quickly"]
        results = compiled.call(flat, out)
        assert results is not None, "a graph must fit the arguments it was traced with"
        graphs = self._graphs[structure] = self._graphs.pop(structure, graphs)
        graphs.insert(0, compiled)
        del graphs[_MOST_GRAPHS:]
        self._forget(graphs)
        if not kwargs and all(part == "leaf" for part in structure[0][1:]):
            self._flat = graphs
        self._quick = _quick(self._flat)
        return compiled.finish(results, out)

    def _untraced(self, args: Any, out: Any, kwargs: Any) -> Any:
        """The function as it is, for arrays whose class has operations of its own."""
        returned = self._function(*args, **kwargs)
        if out is None:
            return returned
        values: list[Any] = []
        structure = _flatten(returned, values)
        return _unflatten(structure, iter(write_results(values, out)))

    def _forget(self, latest: list["_Compiled"]) -> None:
        """Drops the graphs of the nestings whose last use is longest ago, but for these, while there are too many."""
        total = sum(map(len, self._graphs.values()))
        for structure, graphs in list(self._graphs.items()):
            if total <= _MOST_IN_ALL:
                return
            if graphs is not latest and graphs is not self._flat:  # calls that _flat serves do not count as uses
                total -= len(self._graphs.pop(structure, ()))

    def _use(self, graphs: list["_Compiled"], compiled: "_Compiled") -> None:
        """Puts the graph of this call first, where the next call looks first and what is forgotten is farthest."""
        if graphs[0] is not compiled:
            graphs[:] = [compiled, *(other for other in graphs if other is not compiled)]
            self._quick = _quick(self._flat)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def reports(self) -> list[dict[str, Any]]:
        """What compiling did, by graph: operations before and after, kernels, milliseconds by stage."""
        return [call.executable.report for graphs in self._graphs.values() for compiled in graphs for call in compiled.calls]

    def finish(self) -> None:
        """Compiles well what was compiled quickly, and computes what is kept of constants, while calls go on."""
        self.unfinished = False
        for call in [call for graphs in [*self._graphs.values()] for compiled in [*graphs] for call in compiled.calls]:
            call.executable.finish()
            call.keep()

    def stats(self) -> dict[str, dict[str, int]]:
        """`fallback_ops`: what NumPy computed, as no graph can: name -> calls."""
        for graphs in self._graphs.values():
            for compiled in graphs:
                compiled.count()
        return {"fallback_ops": dict(self._names)}

    def dump(self, stage: str = "atlas") -> list[str]:
        """The kernels of the latest graph as text: "atlas", "llvm" or "asm"."""
        latest = next((graphs[0] for graphs in reversed(self._graphs.values()) if graphs), None)
        return [] if latest is None else [text for call in latest.calls for text in call.executable.dump(stage)]

    def __repr__(self) -> str:
        count = sum(len(graphs) for graphs in self._graphs.values())
        return f"<hologram.jit of {getattr(self, '__qualname__', self._function)}, {count} graphs>"


def _quick(graphs: list["_Compiled"]) -> Any:
    return graphs[0].quick if graphs else None


def _trace(function: Callable[..., Any], structure: Any, leaves: tuple[Any, ...], options: Any, recorder: Any, log: Any = None) -> Any:
    """(the trace, the nesting of what the function returned, its leaves)."""
    runtime = _core.shared_runtime(_backend(leaves))
    name = getattr(function, "__qualname__", type(function).__name__)

    def compiled(t: Any) -> Any:
        return _dump.compiled(_dump.numbered(name), t.graph, _core.compile, runtime, t.static, **options)

    tracer = recorder(compiled, log)
    source = iter([*map(tracer.argument, leaves, (scalar for part in structure for scalar in _scalars(part)))])
    args = _unflatten(structure[0], source)
    kwargs = _unflatten(structure[1], source)
    returned = tracer.run(function, args, kwargs)
    values: list[Any] = []
    nesting = _flatten(returned, values)
    for i, value in enumerate(values):
        if type(value) is not Array:
            value = int(value) if isinstance(value, Dim) else _settled(value)
        if isinstance(value, Array) and value.tracer is not tracer:
            raise TraceError("hologram.jit: a value of another trace was returned")
        if type(tracer) is _steps.Recorder:
            value = _settled(HOOKS["by_numpy"](value))
        values[i] = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    return tracer, nesting, values


def _settled(value: Any) -> Any:
    """What a program of NumPy returns, without what only tracing knows."""
    from hologram._creation import plain
    from hologram._selection import chosen

    return plain(chosen(value))


def _compile(function: Any, structure: Any, leaves: Any, options: Any, names: collections.Counter[str], recorder: Any) -> Any:
    tracer, nesting, values = _trace(function, structure, leaves, options, recorder)
    if tracer.steps or tracer.written or tracer.arrays or any(pattern[0] in ("object", "foreign") for pattern, _ in tracer.slots):
        trace = functools.partial(_trace, function, structure)
        plan = Plan(tracer, nesting, values)
        plan.shorten(function if recorder is _steps.Recorder else None, structure)
        return _Stepped(trace, options, recorder, plan, names, tracer.log)
    return _Compiled(tracer, nesting, values)


class _Compiled:
    """One graph with its arguments' pattern; `call` gives None for arguments that it is not for."""

    quick: Any = None  # as in _Stepped

    def __init__(self, tracer: Any, structure: Any, values: list[Any]) -> None:
        self._structure = structure
        self._plan: list[Any] = []  # per returned leaf: its result's position, or (value,)
        results: list[Any] = []
        for value in values:
            if isinstance(value, Array):
                self._plan.append(len(results))
                results.append(tracer.output(value))
            else:
                self._plan.append((value,))
        self._constants = tuple(tracer.constants)
        self._single = self._structure == "leaf" and self._plan == [0]
        self._call = _core.ArrayCall(
            tracer.compile_graph(tracer), tracer.graph, tracer.patterns, results, list(tracer.guards.values())
        )
        self._scalars = [not shape for _, shape in results]

    @property
    def calls(self) -> list[Any]:
        return [self._call]

    def call(self, leaves: tuple[Any, ...], out: Any) -> Optional[list[Any]]:
        return self._call(leaves + self._constants if self._constants else leaves, out)

    def count(self) -> None:
        """Nothing is left to NumPy."""

    def finish(self, results: list[Any], out: Any) -> Any:
        if out is None and True in self._scalars:
            results = [r[()] if scalar else r for r, scalar in zip(results, self._scalars)]
        if self._single:
            return results[0]
        source = iter([results[p] if isinstance(p, int) else p[0] for p in self._plan])
        return _unflatten(self._structure, source)


class _Stepped:
    """Graphs and calls of NumPy in turn, for what a graph alone cannot do; used as _Compiled is."""

    def __init__(self, trace: Any, options: Any, recorder: Any, plan: Any, names: collections.Counter[str], log: Any) -> None:
        self._trace, self._options, self._recorder, self._plan, self._names, self._log = trace, options, recorder, plan, names, log
        self.quick = plan.quick  # function(arguments) → what the traced one returns, or Parted

    @property
    def calls(self) -> list[Any]:
        return self._plan.calls

    def count(self) -> None:
        """Brings what NumPy was called for up to date."""
        self._plan.count(self._names)

    __del__ = count

    def call(self, leaves: tuple[Any, ...], out: Any, given: Optional[list[Any]] = None) -> Any:
        """`given`: what NumPy gave to `quick`, which did not come to its end."""
        log, self._log = self._log, None
        if out is None and log is None and given is None and self.quick is not None:
            try:
                return self.quick(leaves), None
            except Parted as parted:
                given = parted.given
            if given is None:
                return None
        if any(map(_steps.strange, leaves)):
            return None

        def trace(log: Any) -> Any:
            return Plan(*self._trace(leaves, self._options, self._recorder, log))

        log = self._plan.given(given) if given is not None else log
        return self._plan.call(leaves, trace, self._names, _MOST_GRAPHS, log)

    def finish(self, results: Any, out: Any) -> Any:
        values, structure = results
        if structure is None:
            return values
        if out is not None:
            values = write_results(values, out)
        return _unflatten(structure, iter(values))


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
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return (type(value), *[_flatten(v, leaves) for v in value])
    if type(value) is dict:
        return (dict, tuple(value), *[_flatten(v, leaves) for v in value.values()])
    scalar = isinstance(value, np.generic)
    leaves.append(np.asarray(value) if scalar else value)
    return "scalar" if scalar else "leaf"


def _scalars(structure: Any) -> Iterator[bool]:
    """By leaf: whether it is a scalar of NumPy's."""
    if isinstance(structure, str):
        yield structure == "scalar"
    else:
        for part in structure[2 if structure[0] is dict else 1 :]:
            yield from _scalars(part)


def _unflatten(structure: Any, source: Any) -> Any:
    if structure in ("leaf", "scalar"):
        return next(source)
    if structure[0] is dict:
        return {key: _unflatten(s, source) for key, s in zip(structure[1], structure[2:])}
    parts = [_unflatten(s, source) for s in structure[1:]]
    return structure[0](*parts) if hasattr(structure[0], "_fields") else structure[0](parts)

