# hologram/profiling.py: profile(): what the calls of a block take, kernel by kernel
"""Without PyTorch's profiler: compiled models, frozen ones, archives and functions of `hologram.jit` alike.

    with hologram.profile() as profile:
        method(x)
    print(profile)
    profile.save("trace.json")  # for chrome://tracing or Perfetto
    profile.save("plan.html")   # the plans as a page

While a block runs, calls run step by step: each kernel waits for the one before it, and a call takes somewhat longer than outside.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from hologram import _core, limits
from hologram.page import render
from hologram.page.plan import Plan, kind

__all__ = ["Kernel", "Profile", "profile"]


@dataclass(frozen=True)
class Kernel:
    """A kernel of a graph over all calls and over the steps that run it (numbers in the plan): seconds of all, of the fastest and of the
    mean call; share of all kernels' time; operations and bytes of all; of the limit: the least time that its work takes on this machine
    over the mean, None where it is not known."""

    graph: int
    steps: tuple[int, ...]
    name: str
    kind: str
    calls: int
    total: float
    least: float
    share: float
    flop: int
    bytes: int
    of_limit: Optional[float] = None

    @property
    def mean(self) -> float:
        return self.total / self.calls

    @property
    def flops(self) -> float:
        return self.flop / self.total if self.total else 0.0

    @property
    def bandwidth(self) -> float:
        return self.bytes / self.total if self.total else 0.0


class _Graph:
    """The calls of one executable, on so many threads."""

    def __init__(self, executable: Any, threads: int) -> None:
        self.executable, self.threads = executable, threads
        self.plan = executable.describe()
        self.calls: list[tuple[int, list[tuple[int, float, float]]]] = []  # thread, (step, begin, took)
        self.costs: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self.symbols: list[tuple[int, ...]] = []  # by call

    def cost(self, symbols: tuple[int, ...]) -> list[tuple[int, int]]:
        if symbols not in self.costs:
            self.costs[symbols] = self.executable.costs(list(symbols))
        return self.costs[symbols]

    def times(self) -> list[tuple[int, float, float]]:
        """(calls, total, least) by step."""
        found = [(0, 0.0, float("inf"))] * len(self.plan["steps"])
        for _, spans in self.calls:
            for step, _, took in spans:
                calls, total, least = found[step]
                found[step] = calls + 1, total + took, min(least, took)
        return [(calls, total, least if calls else 0.0) for calls, total, least in found]


class Profile:
    """What profile() gives; filled when its block ends. `dropped`: calls that came after a million steps."""

    def __init__(self) -> None:
        self._graphs: list[_Graph] = []
        self.dropped = 0

    def _take(self, runtimes: Sequence[Any], traces: Sequence[Any]) -> None:
        number: dict[int, int] = {}
        for runtime, trace in zip(runtimes, traces):
            self.dropped += trace.dropped
            for executable, thread, symbols, spans in trace.calls():
                if id(executable) not in number:
                    number[id(executable)] = len(self._graphs)
                    self._graphs.append(_Graph(executable, runtime.num_threads))
                graph = self._graphs[number[id(executable)]]
                graph.calls.append((thread, spans))
                graph.symbols.append(tuple(symbols))

    @property
    def calls(self) -> int:
        """Calls of compiled graphs."""
        return sum(len(graph.calls) for graph in self._graphs)

    def of(self, executable: Any) -> tuple[list[tuple[int, float, float]], list[tuple[int, int]]]:
        """By step of an executable's plan (calls, total seconds, least seconds), and (FLOP, bytes) of its last call; nothing of one that
        was not called."""
        graph = next((graph for graph in self._graphs if graph.executable is executable), None)
        return ([], []) if graph is None else (graph.times(), graph.cost(graph.symbols[-1]))

    def kernels(self) -> list[Kernel]:
        """By total time, the largest first."""
        found: dict[tuple[int, Any], list[Any]] = {}
        whole = 0.0
        for number, graph in enumerate(self._graphs):
            for (_, spans), symbols in zip(graph.calls, graph.symbols):
                costs = graph.cost(symbols)
                for step, _, took in spans:
                    about = graph.plan["steps"][step]
                    key = about["program"] if about["program"] >= 0 else about["name"]
                    row = found.setdefault((number, key), [0, 0.0, float("inf"), 0, 0, {}])
                    flop, bytes = costs[step]
                    row[:5] = row[0] + 1, row[1] + took, min(row[2], took), row[3] + flop, row[4] + bytes
                    row[5][step] = None
                    whole += took
        most = self._limits()
        rows = [self._kernel(number, row, whole, most) for (number, _), row in found.items()]
        return sorted(rows, key=lambda k: -k.total)

    def _kernel(self, number: int, row: list[Any], whole: float, most: Optional[limits.Limits]) -> Kernel:
        calls, total, least, flop, bytes, steps = row
        graph, step = self._graphs[number], next(iter(steps))
        about = graph.plan["steps"][step]
        plan = Plan("", graph.plan, costs={step: (flop / calls, bytes / calls)}, device=graph.executable.device)
        share = plan.share(step, total / calls, most)
        part = total / whole if whole else 0.0
        return Kernel(number, tuple(steps), about["name"], kind(about), calls, total, least, part, flop, bytes, share and share[0])

    def __str__(self) -> str:
        rows = self.kernels()
        if not rows:
            return "no call of a compiled graph"
        lines = [f"{'kernel':<48} {'calls':>7} {'total':>10} {'mean':>10} {'share':>6} {'GFLOP/s':>8} {'GB/s':>7} {'limit':>6}"]
        for k in rows:
            limit = f"{100 * k.of_limit:5.0f}%" if k.of_limit else ""
            rate = f"{k.flops / 1e9:8.1f}" if k.flop else f"{'':>8}"
            move = f"{k.bandwidth / 1e9:7.1f}" if k.bytes else f"{'':>7}"
            name = k.name[:48] if k.kind != "host" else f"{k.name[:38]} (PyTorch)"
            row = f"{name:<48} {k.calls:>7} {k.total * 1e3:>7.3f} ms {k.mean * 1e6:>7.1f} µs {100 * k.share:>5.1f}% {rate} {move} {limit}"
            lines.append(row.rstrip())
        graphs = f"{len(self._graphs)} graph" + "s" * (len(self._graphs) != 1)
        lines.append(f"{sum(k.total for k in rows) * 1e3:.3f} ms in kernels of {self.calls} calls of {graphs}")
        if self.dropped:
            lines.append(f"{self.dropped} more calls were not kept")
        return "\n".join(lines)

    def trace(self) -> dict[str, Any]:
        """Chrome's trace events: a call and its kernels each a slice, in microseconds since the first."""
        spans = [span for graph in self._graphs for _, spans in graph.calls for span in spans]
        zero = min((begin for _, begin, _ in spans), default=0.0)
        process, events = os.getpid(), []
        for number, graph in enumerate(self._graphs):
            for (thread, spans), symbols in zip(graph.calls, graph.symbols):
                if not spans:
                    continue
                costs, end = graph.cost(symbols), max(begin + took for _, begin, took in spans)
                common = {"ph": "X", "pid": process, "tid": thread}
                begin = spans[0][1]
                events.append({"name": f"graph {number}", "cat": "graph", "ts": _us(begin - zero), "dur": _us(end - begin), **common})
                for step, begin, took in spans:
                    about, (flop, bytes) = graph.plan["steps"][step], costs[step]
                    facts = {"step": step, "flop": flop, "bytes": bytes}
                    at = {"ts": _us(begin - zero), "dur": _us(took)}
                    events.append({"name": about["name"], "cat": kind(about), **at, "args": facts, **common})
        events.append({"name": "process_name", "ph": "M", "pid": process, "args": {"name": "hologram"}})
        return {"traceEvents": events, "displayTimeUnit": "ns"}

    def page(self, title: str = "Hologram profile") -> str:
        """The graphs that were called, as a page (hologram.page)."""
        plans = []
        for number, graph in enumerate(self._graphs):
            costs = graph.cost(graph.symbols[-1])
            name = f"graph {number}, {len(graph.calls)} calls"
            texts, device = graph.executable.dump("atlas"), graph.executable.device
            plans.append(Plan(name, graph.plan, graph.times(), costs, texts, device=device))
        return render(title, plans, self._limits(), str(self))

    def _limits(self) -> Optional[limits.Limits]:
        """Of the host, where graphs ran on it."""
        threads = [graph.threads for graph in self._graphs if not graph.executable.device]
        return limits.measured(max(threads)) if threads else None

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the trace (.json) or the page (.html). ValueError for another suffix."""
        name = os.fsdecode(path)
        if name.endswith(".json"):
            text = json.dumps(self.trace())
        elif name.endswith((".html", ".htm")):
            text = self.page()
        else:
            raise ValueError(f"profile: {name!r} should end in .json or .html")
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)


@contextlib.contextmanager
def profile(runtimes: Sequence[Any] = ()) -> Iterator[Profile]:
    """Inside, calls of compiled graphs are timed; → a Profile that holds them when the block has ended.

    runtimes: those whose calls count, beside the one that archives and `hologram.jit` share. Blocks do not nest: RuntimeError.
    """
    found = Profile()
    followed = list({id(r): r for r in (*runtimes, _core.shared_runtime("cpu"))}.values())
    traces = [_core.Trace() for _ in followed]
    begun = []
    try:
        for runtime, trace in zip(followed, traces):
            if not _core.Trace.begin(runtime, trace):
                raise RuntimeError("profile: another block of profile() has not ended")
            begun.append(runtime)
        yield found
    finally:
        for runtime in begun:
            _core.Trace.end(runtime)
        if len(begun) == len(followed):
            found._take(followed, traces)
