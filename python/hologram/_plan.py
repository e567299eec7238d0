# hologram/_plan.py: a traced function as its steps, followed by later calls
# mypy: disable-error-code="no-any-return,return-value"
"""A call whose values part from a plan goes on as a further one of the same function."""

import collections
from typing import Any, Callable

import numpy as np

from hologram import _core
from hologram._steps import Check, Graph, Host, Log, Mismatch, Recorder, Ref, Stateful, decode, encode, filled, fits
from hologram.trace import Array

__all__ = ["Plan", "write_results"]


class Plan:
    """The steps of one trace. A call whose values part from it goes on as a further trace, which has what NumPy gave so far."""

    def __init__(self, recorder: Recorder, structure: Any, values: list[Any]) -> None:
        for value in (*values, *recorder.written.values()):
            if isinstance(value, Array):
                value.refresh()
        returned = {id(v): v for v in (*values, *recorder.written.values()) if isinstance(v, Array) and v.pending}
        if returned:
            recorder.end_graph(list(returned.values()))
        recorder.check()
        self._steps, self._structure = recorder.steps, structure
        self._leaves, self._symbols = recorder.leaves, len(recorder.hints)
        constants = {slot for slot, (pattern, _) in enumerate(recorder.slots) if slot >= self._leaves}
        known = {slot for step in self._steps for slot in filled(step)}
        self._blank = [recorder.environment[s] if s in constants - known else None for s in range(len(recorder.slots))]
        self._results = [encode(v) if isinstance(v, (Array, Stateful)) else v for v in values]
        self._written = [(leaf, encode(array)) for leaf, array in recorder.written.items()]
        self._arrays = recorder.arrays
        whole = {id(array): leaf for leaf, array in recorder.written.items()}
        self._same = [whole.get(id(value)) for value in values]  # per result: the written argument that it is
        self._traced: Any = recorder.environment  # of the call that was traced
        self._others: list[Plan] = []
        self._hosts = [step.name for step in self._steps if isinstance(step, Host)]
        self._counts = collections.Counter(filter(None, self._hosts)).items()
        self._views = recorder.views
        self._patterns = [pattern for pattern, _ in recorder.slots]
        self.quick: Any = None  # the steps as one function
        self.quick_calls = [0]  # of it, since they were counted last

    def shorten(self, function: Any, arguments: Any) -> None:
        """Writes the steps as one function, where it can be. The traced one itself is called where NumPy does the work, of graphs
        there is one simple operation at most, and nothing can be made ahead. `function`: None for one that takes no arrays of
        NumPy."""
        if self._written or self._arrays:
            return
        from hologram._prepared import lists, numbers
        from hologram._straight import straight

        own = any(type(value) is Ref and value.slot < self._leaves for value in self._results)
        graphs = [step for step in self._steps if isinstance(step, Graph)]
        light = sum(step.work for step in graphs) <= 1
        hosts = [step for step in self._steps if isinstance(step, Host)]
        prepared = [numbers(step, self._patterns, Ref) | lists(step) for step in hosts]
        better = self._views or any(prepared) or any(step.ufunc and len(step.ufunc[1]) > 1 for step in graphs)
        whole = light and not own and not (better and all(step.ufunc for step in graphs)) and function is not None
        self.quick = straight(self, (function, arguments) if whole else None, light)

    def given(self, results: list[Any]) -> Log:
        """What NumPy gave to a call of `quick`, for one that goes on."""
        return Log(results, self._hosts[: len(results)])

    def count(self, names: Any) -> None:
        """Adds to `names` what NumPy was called for in calls of `quick`."""
        calls, self.quick_calls[0] = self.quick_calls[0], 0
        for name, count in self._counts:
            names[name] += count * calls

    @property
    def calls(self) -> list[Any]:
        return [step.call for plan in (self, *self._others) for step in plan._steps if isinstance(step, Graph)]

    def follow(self, leaves: tuple[Any, ...], log: Log) -> Any:
        """The results' leaves; Mismatch."""
        if self._written or self._arrays:
            self._check_arguments(leaves)
        environment = self._traced
        self._traced = None
        if environment is None:
            environment = [*leaves, *self._blank[self._leaves :]]
            symbols = [-1] * self._symbols
            log.used = 0
            for number, step in enumerate(self._steps):
                step.run(self, environment, symbols, log, *self._places(number, step, leaves))
        results = []
        for value in self._results:
            if type(value) is not Ref:
                results.append(value)
            else:
                given = environment[value.slot]
                argument = value.slot < self._leaves and isinstance(given, (np.ndarray, _core.Buffer))
                results.append(np.array(given)[()] if argument else given)
        for leaf, value in self._written:
            new = decode(value, environment, [])
            if new is leaves[leaf]:
                continue
            if isinstance(leaves[leaf], _core.Buffer):
                leaves[leaf].from_numpy(np.asarray(new))
            else:
                np.copyto(leaves[leaf], new)
        return [value if leaf is None else leaves[leaf] for value, leaf in zip(results, self._same)]

    def _check_arguments(self, leaves: tuple[Any, ...]) -> None:
        """Mismatch for arguments that the steps are not for, ValueError for those that cannot be written."""
        if len(leaves) != self._leaves or not all(isinstance(leaves[leaf], np.ndarray) for leaf in self._arrays):
            raise Mismatch
        try:
            for leaf, _ in self._written:
                _check_written(leaves, leaf)
        except ValueError:
            symbols = [-1] * self._symbols
            if all(fits(pattern, value, symbols) for pattern, value in zip(self._patterns, leaves)):
                raise
            raise Mismatch from None

    def _places(self, number: int, step: Any, leaves: tuple[Any, ...]) -> list[Any]:
        """Where the last graph, behind which nothing can part, puts what it computes for Buffers that the program writes: themselves."""
        if type(step) is not Graph or not self._written:
            return []
        behind = self._steps[number + 1 :]  # checks of arguments that the graph has looked at
        if any(type(s) is not Check or s.guards or any(k >= self._leaves or not step.given[k] for k, _ in s.slots) for s in behind):
            return []
        kept = {v.slot for v, same in zip(self._results, self._same) if type(v) is Ref and same is None}
        into = {v.slot: leaves[leaf] for leaf, v in self._written if type(v) is Ref and isinstance(leaves[leaf], _core.Buffer)}
        places = tuple(None if slot in kept or scalar else into.get(slot) for slot, scalar, _ in step.outputs)
        return [places] if any(place is not None for place in places) else []

    def call(self, leaves: tuple[Any, ...], trace: Callable[[Log], "Plan"], names: Any, most: int, log: Any) -> Any:
        """(results, structure), or None where the first steps are for other arguments. `log`: of the trace, at its own call."""
        log = log or Log()
        for plan in (self, *self._others):
            try:
                results = plan.follow(leaves, log)
            except Mismatch:
                if not log.results and plan is self:
                    return None
                continue
            break
        else:
            plan = trace(log)
            results = plan.follow(leaves, log)
            self._others.insert(0, plan)
            del self._others[most:]
        names.update(filter(None, log.names))
        return results, plan._structure


def _check_written(leaves: tuple[Any, ...], written: int) -> None:
    array = leaves[written]
    if isinstance(array, np.ndarray):
        if not array.flags.writeable:
            raise ValueError("hologram.jit: assignment destination is read-only")
        if any(i != written and isinstance(a, np.ndarray) and np.may_share_memory(array, a) for i, a in enumerate(leaves)):
            raise ValueError("hologram.jit: the function writes an argument that shares memory with another one")


def write_results(values: list[Any], out: tuple[Any, ...]) -> list[Any]:
    """Copies results into the arrays that a call names."""
    if len(values) != len(out):
        raise ValueError("hologram.jit: out must name as many arrays as there are results")
    for value, target in zip(values, out):
        if not isinstance(target, np.ndarray):
            raise TypeError("hologram.jit: out must be arrays, where NumPy computes some of the steps")
        if target.dtype != np.asarray(value).dtype or target.shape != np.shape(value) or not target.flags.writeable:
            raise ValueError("hologram.jit: out must be writable, and of the result's dtype and shape")
        target[...] = value
    return list(out)
