# hologram_torch/compiler.py: one AOT graph → one native callable
import dataclasses
import functools
import itertools
import time

import torch
from hologram import _dump

from . import counters, holders, lines, owners, parameters, precision, profiling, runtimes, writes
from .capture import again, unfold
from .graph.symbols import Unsupported
from .options import Options, strict
from .pieces import CutGraph, Variants
from .program import Program, Programs
from .translate import bodies, cut, layout
from .translate.host import Traced, as_traced
from .translate.translator import Translator

_numbers = itertools.count()
EXCHANGE = "__dlpack_c_exchange_api__"  # how tensors reach native code in nanoseconds


def check_pytorch():
    """Raises ImportError where this PyTorch is too old."""
    if not hasattr(torch.Tensor, EXCHANGE):
        raise ImportError(f"hologram_torch needs PyTorch 2.10 or later (torch.Tensor.{EXCHANGE}); this is {torch.__version__}")


check_pytorch()
holders.watch()
writes.watch()
profiling.watch()


def compile_graph(module, kind: str, options: Options, static=None, examples=(), brief=None, keep=False):
    """A callable over one list (which it clears) that runs the graph. Where compiling fails, PyTorch runs the graph,
    with a warning; with HOLOGRAM_STRICT=1 the error is raised. `static`: positions of parameters, where PyTorch's tracing
    does not tell them; `examples`: tensors like those of the calls; `brief`: precision.allowed() when the graph was
    captured; `keep`: to leave the Programs that the callable was made of as its attribute `programs`."""
    task = _Task(f"{kind}_{next(_numbers)}", options, brief=precision.allowed() if brief is None else brief, keep=keep)

    def compile():
        if kind == "backward":
            layout.adopt(module, examples)
        if kind == "inference" and options.recompute:
            again.spread(module)
        task.hidden = layout.hidden(module.graph, kind)
        task.layouts = layout.saved(module.graph, task.hidden) if kind == "forward" else {}
        task.static = parameters.positions(module, kind) if static is None else static
        task.quickly = not keep and parameters.trains(kind)
        call = _compile(module, task)
        if not isinstance(call, CutGraph):
            layout.report(module.graph, task.layouts)
        return call

    return _or_pytorch(module, task.name, compile)


def compile_native(module, options: Options, name: str):
    """A callable like compile_graph's of a graph that is ours alone and whose results are memory of their own. Unsupported where
    PyTorch would run a part of it, or a result is an argument."""
    task = _Task(f"{name}_{next(_numbers)}", options, precision.allowed())
    unfold.unfold(module)
    if cut.places(module.graph) or cut.lacks_sizes(module.graph, False) or cut.unknown_sizes(module.graph):
        raise Unsupported("sizes that are data")

    def make(treatment):
        program = _translate(module, task, None, treatment)
        if program.host.calls:
            raise Unsupported(f"PyTorch's {', '.join(sorted({name for name, *_ in program.fallbacks})) or 'operators'}")
        if any(kind in ("argument", "argument_view", "again") for kind, *_ in program.results):
            raise Unsupported("a result that is an argument, or another result")
        return program

    return Programs(make, _varies(module, options, task.brief), options.fast).compile()


@dataclasses.dataclass
class _Task:
    """How a graph is compiled. static: positions of parameters; layouts, hidden: as Translator takes them; body: it belongs to
    another graph's operator; quickly: its first call may have slow kernels; parts: how many graphs have been named after it."""

    name: str
    options: Options
    brief: frozenset
    static: list = ()
    layouts: dict = dataclasses.field(default_factory=dict)
    hidden: range = range(0)
    keep: bool = False
    quickly: bool = False
    body: bool = False
    parts: int = 0

    def part(self, static=(), body=False):
        """Of a graph that this one is made of."""
        self.parts += 1
        return _Task(f"{self.name}.{self.parts}", self.options, self.brief, list(static), quickly=self.quickly, body=body)


class _Left(Exception):
    """An operator that cannot be a step of a graph."""

    def __init__(self, node):
        super().__init__(f"operator {node.target}")
        self.node = node


def _or_pytorch(module, name, compile):
    try:
        return compile()
    except _dump.DumpError:  # the user's to mend; nothing to report
        raise
    except Exception as error:
        if strict():
            counters.blame(error, name)
            raise
        counters.count_failure()
        counters.log.warning("graph %s runs in PyTorch, as compiling it failed: %s: %s%s; %s",
                          name, type(error).__name__, error, lines.at(getattr(error, "where", "")), counters.REPORT)  # fmt: skip
        counters.log.debug("%s", module.graph, exc_info=True)
        return _interpreted(module)


def _compile(module, task, call=None):
    """The graph whole, or in parts where operators cannot be steps of it. `call`: the graph.symbols.Call that it is for."""
    unfold.unfold(module)
    at = cut.places(module.graph)
    if not at and not cut.lacks_sizes(module.graph, task.body):
        sizes = cut.unknown_sizes(module.graph) if call is None else None
        if sizes:
            return Variants(functools.partial(_compile, module, task), sizes)
        try:
            return _whole(module, task, call)
        except _Left as left:
            counters.log.debug("%s: %s", left.node.target, left.__cause__)
            at = {left.node}
    return CutGraph(module, at, functools.partial(_part, task), functools.partial(_body, task))


def _whole(module, task, call):
    make = functools.partial(_translate, module, task, call)
    programs = Programs(make, _varies(module, task.options, task.brief), task.options.fast, task.keep and call is None)
    compiled = programs.compile()
    if task.keep and call is None:
        compiled.programs = programs
    return compiled


def _part(task, inputs, part):
    """`inputs`: of the graph that the part is cut from."""
    kept = {inputs[i] for i in task.static}
    task = task.part(i for i, node in enumerate(part.reads) if node in kept)
    return _or_pytorch(part.module, task.name, lambda: _compile(part.module, task))


def _body(task, module):
    """A graph that an operator runs as a function of its arguments."""
    task = task.part(body=True)

    def compile():
        bodies.spread(module)
        return _compile(module, task)

    call = _or_pytorch(module, task.name, compile)
    alone = not isinstance(module.graph.find_nodes(op="output")[0].args[0], (list, tuple))

    kinds = [Traced.of(node.meta.get("val")) for node in module.graph.find_nodes(op="placeholder")]

    def run(*arguments):
        results = call(as_traced(kinds, list(arguments), "an operator"))
        return results[0] if alone else tuple(results)

    return run


def _interpreted(module):
    """The graph run operator by operator."""

    def run(arguments):
        values = list(arguments)
        arguments.clear()
        return list(module(*values))

    run._boxed_call = True
    return run


def _varies(module, options: Options, brief) -> str | None:
    """The type of device that float32 products of ours are on, if permissions may let them have fewer bits."""
    where = runtimes.of(module.graph)
    kind = "cpu" if runtimes.in_host_memory(where) else where.partition(":")[0]
    ours = kind == "cpu" or owners.choose("products", options).own
    return kind if (kind in brief or options.fast) and ours and not options.reproducible and _has_products(module) else None


_PRODUCTS = {getattr(torch.ops.aten, name) for name in ("mm", "bmm", "addmm", "baddbmm")}


def _has_products(module) -> bool:
    return any(
        getattr(node.target, "overloadpacket", None) in _PRODUCTS and node.meta["val"].dtype == torch.float32
        for node in module.graph.nodes
    )


def _translate(module, task, call, treatment) -> Program:
    start = time.perf_counter()
    if "fx" in _dump.stages():
        _dump.write(task.name, "fx", module.print_readable(print_output=False))
    where, options = runtimes.of(module.graph), task.options
    with runtimes.on(where), runtimes.owning(owners.own(options)):
        translated = Translator(module, task.static, options.pack_weights, options, task.layouts, treatment, task.hidden, call,
                                functools.partial(_body, task))  # fmt: skip
        try:
            translated.run()
        except Exception as error:
            if translated.at is None or strict() and not isinstance(error, Unsupported):
                raise
            raise _Left(translated.at) from error
    return Program.of(task.name, translated, options, 1e3 * (time.perf_counter() - start), runtimes.given(where), task.quickly)
