# hologram_torch/compiler.py: one AOT graph → one native callable
import functools
import itertools
import time

import torch
from hologram import _core

from . import counters, device, memory, parameters, precision, writes
from .graph.formula import WithFormulas
from .options import Options, strict
from .translate import layout
from .translate.translator import Translator

_numbers = itertools.count()
EXCHANGE = "__dlpack_c_exchange_api__"  # how tensors reach native code in nanoseconds
REPORT = "please report it with the output of HOLOGRAM_DUMP=graph HOLOGRAM_LOG=debug"


def check_pytorch():
    """Raises ImportError where this PyTorch is too old."""
    if not hasattr(torch.Tensor, EXCHANGE):
        raise ImportError(f"hologram_torch needs PyTorch 2.10 or later (torch.Tensor.{EXCHANGE}); this is {torch.__version__}")


check_pytorch()
writes.watch()


def compile_graph(module, kind: str, options: Options, static=None, examples=(), brief=None):
    """A callable over one list (which it clears) that runs the graph. Where compiling fails, PyTorch runs the graph,
    with a warning; with HOLOGRAM_STRICT=1 the error is raised. `static`: positions of parameters, where PyTorch's tracing
    does not tell them; `examples`: tensors like those of the calls; `brief`: whether
    float32 products were allowed fewer bits when the graph was captured."""
    name = f"{kind}_{next(_numbers)}"
    try:
        if kind == "backward":
            layout.adopt(module, examples)
        layouts = layout.saved(module.graph) if kind == "forward" else {}
        static = parameters.positions(module, kind) if static is None else static
        make = functools.partial(_compile, module, name, options, static, layouts)
        brief = precision.allowed() if brief is None else brief
        if (brief or options.fast) and not options.reproducible and _has_products(module):
            return precision.ByPrecision(make, options.fast)
        return make(precision.EXACT)
    except Exception as error:
        if strict():
            error.add_note(f"while hologram compiled graph {name}; {REPORT}") if hasattr(error, "add_note") else None
            raise
        counters.count_failure()
        counters.log.warning("graph %s runs in PyTorch, as compiling it failed: %s: %s; %s",
                          name, type(error).__name__, error, REPORT)  # fmt: skip
        counters.log.debug("%s", module.graph, exc_info=True)
        return _interpreted(module)


def _interpreted(module):
    """The graph run operator by operator."""

    def run(arguments):
        values = list(arguments)
        arguments.clear()
        return list(module(*values))

    run._boxed_call = True
    return run


_PRODUCTS = {getattr(torch.ops.aten, name) for name in ("mm", "bmm", "addmm", "baddbmm")}


def _has_products(module) -> bool:
    return any(
        getattr(node.target, "overloadpacket", None) in _PRODUCTS and node.meta["val"].dtype == torch.float32
        for node in module.graph.nodes
    )


def _compile(module, name, options, static, layouts, treatment):
    start = time.perf_counter()
    stages = counters.dump_stages()
    if stages:
        counters.dump(name, "fx", module.print_readable(print_output=False)) if "fx" in stages else None
    translated = Translator(module, static, options.pack_weights, options, layouts, treatment).run()
    trace_ms = 1e3 * (time.perf_counter() - start)
    if "graph" in stages:
        counters.dump(name, "graph", str(translated.graph))
    executable = _core.compile(
        translated.graph, device.runtime(), translated.static, options.reproducible, options.fast
    )
    call = _core.torch_call(
        executable, torch.Tensor.__dlpack_c_exchange_api__, translated.args, translated.results, translated.host,
        translated.constants, device.thread_count(),
    )  # fmt: skip
    call.native = not translated.host.calls
    memory.watch(call, executable)
    if "plan" in stages:
        counters.dump(name, "plan", executable.plan())
    for stage in sorted(stages & {"atlas", "llvm", "asm"}):
        for number, text in enumerate(executable.dump(stage)):
            counters.dump(f"{name}.{number}", stage, text)
    for fallback in dict.fromkeys(translated.fallbacks):
        counters.name_fallback(fallback)
    total_ms = 1e3 * (time.perf_counter() - start)
    report = executable.report
    counters.count_graph(report, trace_ms, total_ms)
    counters.log.info("graph %s: %d operations, %d canonical, %d kernels, %.1f ms (%.1f in Python)",
                   name, report["ops_before"], report["ops_canonical"], report["kernels"], total_ms, trace_ms)  # fmt: skip
    counters.compiled(name, executable)
    layout.report(len(translated.results), layouts)
    device.runtime().drop_code_pages()  # a compilation has touched 20 MB of them
    formulas = [formula for formula, _ in translated.symbols.formulas]
    return WithFormulas(call, formulas) if formulas else call
