# hologram_torch/explain/__init__.py: how a model becomes kernels: text and a picture
import dataclasses
import html

from .. import counters
from .picture import draw
from .table import table


@dataclasses.dataclass(frozen=True)
class Graph:
    """One compiled graph: its name, the compiler's report and the plan's description; with explain(runs=…), also
    the (calls, total seconds, least seconds) of each step; the GPU that it runs on, in words; how many of its packed weights share
    memory with other tensors, and their bytes."""

    name: str
    report: dict
    plan: dict
    times: tuple = ()
    device: str = ""
    shared: tuple = (0, 0)

    def kernels(self) -> list:
        """The steps of a steady-state call: what packs weights runs once and is left out. After explain(runs=…) each
        has "seconds", the least time it took in one call."""
        steps = self.plan["steps"]
        if self.times:
            steps = [dict(s, seconds=least) for s, (_, _, least) in zip(steps, self.times)]
        return [s for s in steps if not s["cached"]]


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What explain() found. str() gives the text; html() and svg() the pictures; save(path) writes one by its suffix."""

    graphs: list
    fallback_ops: dict

    def __str__(self) -> str:
        lines = []
        for graph in self.graphs:
            lines += table(graph)
        lines += [f"on {device}" for device in dict.fromkeys(graph.device for graph in self.graphs) if device]
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
        return draw(self.graphs[index].plan)

    def html(self) -> str:
        """A page with the text and a picture of every plan."""
        pictures = "".join(f"<h2>{html.escape(g.name)}</h2>{self.svg(i)}" for i, g in enumerate(self.graphs))
        return (
            "<!doctype html><html><head><meta charset='utf-8'><title>Hologram plan</title>"
            "<style>body{font-family:system-ui,sans-serif;margin:2em}pre{background:#f5f6f8;padding:1em}</style>"
            f"</head><body><h1>Plan</h1><pre>{html.escape(str(self))}</pre>{pictures}</body></html>"
        )

    def save(self, path: str) -> None:
        """Writes the page (.html) or the picture of the first graph (.svg). Raises ValueError for another suffix."""
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
    torch.compile(options=...). Raises ValueError for negative runs.
    """
    import torch
    from hologram import _core

    from ..backend import hologram

    if runs < 0:
        raise ValueError(f"explain: runs is {runs}; expected 0 or more")
    torch._dynamo.reset()
    before = dict(counters.stats()["fallback_ops"])
    with counters.capture() as records, torch.no_grad():
        compiled = torch.compile(model, backend=hologram, options=options or None)
        compiled(*inputs)
        after = counters.stats()["fallback_ops"]
        for _, executable in records:
            executable.set_profile(runs > 0)
        for _ in range(runs):
            compiled(*inputs)
    fallback = {k: n - before.get(k, 0) for k, n in after.items() if n > before.get(k, 0)}
    graphs = []
    for name, executable in records:
        executable.set_profile(False)
        times = tuple(executable.step_times()) if runs else ()
        graphs.append(Graph(name, executable.report, executable.describe(), times, executable.device,
                            _core.shared_weights(executable)))  # fmt: skip
    return Explanation(graphs, fallback)
