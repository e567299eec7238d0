# hologram_torch/explain/__init__.py: how a model becomes kernels: text and a picture
import contextlib
import dataclasses
import os

from hologram import limits as machine
from hologram.page import Plan, render

from .. import counters, owners
from ..options import Options
from . import alive
from .picture import draw
from .table import table


@dataclasses.dataclass(frozen=True)
class Graph:
    """One compiled graph: its name, the compiler's report and the plan's description; with explain(runs=…), also the (calls, total
    seconds, least seconds) of each step, its (FLOP, bytes) in a call, and on how many threads; the GPU that it runs on, in words; how
    many of its packed weights share memory with other tensors, and their bytes; the Atlas text of each program; by node (operator, line
    of the user's program)."""

    name: str
    report: dict
    plan: dict
    times: tuple = ()
    device: str = ""
    shared: tuple = (0, 0)
    programs: tuple = ()
    costs: tuple = ()
    threads: int | None = None
    origins: dict = dataclasses.field(default_factory=dict)

    def kernels(self) -> list:
        """The steps of a steady-state call: what packs weights runs once and is left out. After explain(runs=…) each
        has "seconds", the least time it took in one call, and "limit", (the least time that its work takes on this machine over
        that, what binds), or None where it is not known."""
        steps = self.plan["steps"]
        if self.times:
            page, most = self.page(), self.limits()
            seconds = [least for _, _, least in self.times]
            steps = [dict(s, seconds=t, limit=page.share(i, t, most)) for i, (s, t) in enumerate(zip(steps, seconds))]
            steps = [s | {"flop": str(flop), "bytes": str(bytes)} for s, (flop, bytes) in zip(steps, self.costs)]
        return [s for s in steps if not s["cached"]]

    def alive(self, most: int = 20) -> str:
        """The intermediates that are live when they take the most memory, the largest first: who makes each, and who needs it still.
        Empty where sizes vary."""
        return "\n".join(alive.lines(self.plan, most))

    def limits(self):
        """hologram.limits of this machine, where the graph has times on it; else None."""
        return machine.measured(self.threads) if self.times and not self.device else None

    def page(self) -> Plan:
        """As the page shows it."""
        return Plan(self.name, self.plan, self.times, self.costs, self.programs, self.origins, self.device, table(self, False))


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What explain() found. str() gives the text, svg() a picture, html() a page to move in: the plan as a graph, the kernels as a
    table, with runs= a roofline, and the source line of each operation. save(path) writes one of them by its suffix."""

    graphs: list
    fallback_ops: dict
    products: dict = dataclasses.field(default_factory=dict)  # owners.Choice by kind, where tensors are CUDA's

    def __str__(self) -> str:
        lines = []
        for graph in self.graphs:
            lines += table(graph) + alive.lines(graph.plan, 3)
        lines += [f"on {device}" for device in dict.fromkeys(graph.device for graph in self.graphs) if device]
        lines += [f"  {kind} of CUDA tensors: {choice}" for kind, choice in self.products.items()]
        if any(not graph.device for graph in self.graphs):
            lines += self.processor()
        if self.fallback_ops:
            calls = ", ".join(f"{name} ×{n}" for name, n in sorted(self.fallback_ops.items()))
            lines.append(f"left to PyTorch: {calls}")
        elif self.graphs:
            lines.append("left to PyTorch: nothing")
        return "\n".join(lines) or "no graph was compiled"

    @staticmethod
    def processor() -> list:
        """Lines that name this machine's processor and, by kind of product, which instructions serve it and why."""
        from hologram import _core

        host = _core.host_cpu()
        rows = (f"  {what}: {choice['path']} ({choice['why']})" for what, choice in host["choices"].items())
        return [f"products on {host['processor']}, level {host['isa']}", *rows]

    def svg(self, index: int = 0) -> str:
        """The plan of graph `index` as an SVG picture."""
        if not -len(self.graphs) <= index < len(self.graphs):
            raise IndexError(f"explain: there is no graph {index}; {len(self.graphs)} were compiled")
        return draw(self.graphs[index].plan)

    def html(self) -> str:
        """One self-contained page about every plan."""
        limits = next(filter(None, (graph.limits() for graph in self.graphs)), None)
        return render("Hologram plan", [graph.page() for graph in self.graphs], limits, str(self), self.fallback_ops)

    def save(self, path) -> None:
        """Writes the page (.html) or the picture of the first graph (.svg). Raises ValueError for another suffix."""
        path = os.fsdecode(path)
        if path.endswith(".svg"):
            content = self.svg()
        elif path.endswith((".html", ".htm")):
            content = self.html()
        else:
            raise ValueError(f"explain: {path!r} should end in .html or .svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)


def explain(model, *inputs, runs: int = 0, **options) -> Explanation:
    """Compiles `model` for `inputs`, runs it once without gradients and tells what came of it.

    model: a module or function; inputs: its positional arguments; runs: further calls in which every kernel is timed
    (seconds, the least of these calls; each kernel waits for the one before it); options: as in
    torch.compile(options=...). Raises ValueError for negative runs, RuntimeError for runs inside of profile().
    """
    import torch
    from hologram import _core

    from .. import profiling, runtimes
    from ..backend import hologram

    if runs < 0:
        raise ValueError(f"explain: runs is {runs}; expected 0 or more")
    torch._dynamo.reset()
    before = dict(counters.stats()["fallback_ops"])
    with counters.capture() as records, torch.no_grad():
        compiled = torch.compile(model, backend=hologram, options=options or None)
        compiled(*inputs)
        after = counters.stats()["fallback_ops"]
        with profiling.profile() if runs else contextlib.nullcontext() as profile:
            for _ in range(runs):
                compiled(*inputs)
    fallback = {k: n - before.get(k, 0) for k, n in after.items() if n > before.get(k, 0)}
    graphs = []
    for name, executable, origins in records:
        times, costs = profile.of(executable) if runs else ((), ())
        shared, programs = _core.shared_weights(executable), tuple(executable.dump("atlas"))
        plan = executable.describe()
        graphs.append(Graph(name, executable.report, plan, tuple(times), executable.device, shared, programs, tuple(costs),
                            runtimes.runtime().num_threads, origins))  # fmt: skip
    return Explanation(graphs, fallback, _products(model, inputs, Options.make(None, options)))


def _products(model, inputs, options) -> dict:
    from torch.utils import _pytree

    import torch

    tensors = [*_pytree.tree_leaves(inputs), *(model.parameters() if isinstance(model, torch.nn.Module) else ())]
    if not any(isinstance(t, torch.Tensor) and t.device.type == "cuda" for t in tensors):
        return {}
    return {kind: owners.choose(kind, options) for kind in owners.KINDS}
