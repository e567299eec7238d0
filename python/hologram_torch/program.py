# hologram_torch/program.py: a translated graph as plain data, and the native callable that it becomes
"""A Program can be pickled: the graph in its text form, operators of PyTorch by name. What loads it compiles for the machine
there, or takes kernels from the cache; Programs may bring those of the machine that saved them."""

import copyreg
import dataclasses
import functools
import linecache
import time

import torch
from hologram import _core, _dump

from . import counters, memory, precision, runtimes
from .graph import dtypes
from .graph.formula import WithFormulas
from .options import strict
from .translate.host import HostTable

LONG = 50  # ms that tracing and compiling take


def _graph(text):
    return _core.Graph.parse(text)


def _expression(text):
    return _core.Expr.parse(text)


copyreg.pickle(_core.Graph, lambda graph: (_graph, (str(graph),)))
copyreg.pickle(_core.Expr, lambda e: (_expression, (repr(e),)))


@dataclasses.dataclass
class Program:
    """One graph of tensor operations with all that calls need. args, results, host, constants: as `_core.torch_call` takes
    them; static: by parameter of the graph, whether packed forms of it are kept; formulas: of sizes that each call
    computes; fallbacks: (name, reason, user's line) of operators that PyTorch runs; trace_ms: what translating took; origins: by
    node of the graph (operator, user's line), where anyone captures; backend: as Options.device; lent: arguments that calls
    write before they read them may hold intermediates until then; quickly: the first call may have slow kernels."""

    name: str
    graph: _core.Graph
    args: list
    results: list
    host: HostTable
    constants: list
    static: list
    formulas: list
    fallbacks: list
    reproducible: bool
    fast: bool
    trace_ms: float = 0.0
    device: str = "cpu"
    graphs: bool | None = None
    origins: dict = dataclasses.field(default_factory=dict)
    backend: str | None = None
    lent: bool = False
    quickly: bool = False

    @classmethod
    def of(cls, name, translated, options, trace_ms, where="cpu", quickly=False):
        """What a Translator that has run left."""
        t = translated
        formulas = [formula for formula, _ in t.symbols.formulas]
        return cls(name, t.graph, t.args, t.results, t.host, t.constants, t.static, formulas, t.fallbacks,
                   options.reproducible, options.fast, trace_ms, where, options.cudagraphs, t.origins, options.device,
                   options.recompute, quickly)  # fmt: skip

    def compile(self):
        """→ a callable over one list, which it clears; its `native` tells whether PyTorch runs no operator of it."""
        start = time.perf_counter()
        self.host.ready()
        executable = _dump.compiled(
            self.name, self.graph, _core.compile, runtimes.runtime(self.device, self.backend), self.static, self.reproducible,
            self.fast, self.graphs, runtimes.in_host_memory(self.device), self.quickly)  # fmt: skip
        if self.lent:
            executable.use_overwritten()
        call = _core.torch_call(
            executable, runtimes.exchange(self.device), self.args, self.results, self.host, self.constants, runtimes.thread_count(),
            runtimes.place(self.device, dtypes.TORCH),
        )  # fmt: skip
        if executable.provisional:
            call.before_second(functools.partial(_finish, self.name, executable))
        call.native = not self.host.calls
        memory.watch(call, executable, runtimes.in_host_memory(self.device))
        total_ms = self.trace_ms + 1e3 * (time.perf_counter() - start)
        self._report(executable, total_ms)
        runtimes.runtime().drop_code_pages()  # a compilation has touched 20 MB of them
        if total_ms > LONG:
            runtimes.runtime().trim_heap()  # of a large graph; small ones leave less than looking for it is worth
        _forget_sources()
        return WithFormulas(call, self.formulas) if self.formulas else call

    def _report(self, executable, total_ms):
        for fallback in self.fallbacks:
            counters.name_fallback(*fallback)
        report = executable.report
        counters.count_graph(report, self.trace_ms, total_ms)
        counters.log.info("graph %s: %d operations, %d canonical, %d kernels, %.1f ms (%.1f in Python)",
                          self.name, report["ops_before"], report["ops_canonical"], report["kernels"], total_ms, self.trace_ms)  # fmt: skip
        counters.compiled(self.name, executable, self.origins)


class Programs:
    """A graph's program for each treatment of float32 products that its calls may ask for: make(treatment) → Program.
    varies: the type of device whose permissions there are others than precision.EXACT for, or None; fast: as in Options. Can
    be pickled, which makes them all; keep: with the machine code of those that have been compiled."""

    def __init__(self, make, varies: str | None, fast: bool, keep=False):
        self._make, self._varies, self._fast, self._keep = make, varies, fast, keep
        self._made, self._kernels = {}, {}

    def compile(self):
        """→ a callable over one list, which it clears."""
        if self._make is None:
            runtimes.give(self._kernels)
        if self._varies:
            return precision.ByPrecision(self._compiled, self._fast, self._varies)
        return self._compiled(precision.EXACT)

    def _compiled(self, treatment):
        if self._make is None or not self._keep:
            return self._of(treatment).compile()
        with runtimes.recording(self._kernels):
            return self._of(treatment).compile()

    def __getstate__(self):
        made = {t: self._of(t) for t in (precision.TREATMENTS if self._varies else (precision.EXACT,))}
        return vars(self) | {"_make": None, "_made": made}

    def _of(self, treatment) -> Program:
        found = self._made.get(treatment)
        if found is None:
            found = self._made[treatment] = self._make(treatment)
        return found


def _finish(name, executable):
    """Before a graph's second call: many will follow."""
    try:
        counters.count_finished(executable.finish())
    except Exception as error:
        if strict():
            counters.blame(error, name)
            raise
        counters.log.warning("graph %s keeps its first kernels, which are slow, as compiling it failed: %s: %s; %s",
                             name, type(error).__name__, error, counters.REPORT)  # fmt: skip
    runtimes.runtime().drop_code_pages()


def _forget_sources():
    """Drops the text of source files that PyTorch's tracing has read for its messages, 5 MB and more; Python reads it again
    where it is needed. What came from no file stays."""
    for name, entry in list(linecache.cache.items()):
        if len(entry) == 4 and entry[1] is not None:  # size, time of change, lines, path
            linecache.cache.pop(name, None)
