# hologram_torch/compiler.py: one AOT graph → one native callable
import itertools
import time

import torch
from hologram import _core

from . import counters, device, layout
from .options import Options, strict
from .translate import Translator

_numbers = itertools.count()
REPORT = "please report it with the output of HOLOGRAM_DUMP=graph HOLOGRAM_LOG=debug"


def static_inputs(kind: str) -> list:
    """Positions of parameters and buffers among the arguments of the graph that is being compiled."""
    if kind == "backward":
        return []
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    return list(getattr(metadata, "static_input_indices", None) or [])


def compile_graph(module, kind: str, options: Options, static=None, examples=()):
    """A callable over one list (which it clears) that runs the graph. Where compiling fails, PyTorch runs the graph,
    with a warning; with HOLOGRAM_STRICT=1 the error is raised. `static`: positions of parameters, where PyTorch's tracing
    does not tell them; `examples`: tensors like those of the calls."""
    name = f"{kind}_{next(_numbers)}"
    try:
        if kind == "backward":
            layout.adopt(module, examples)
        return _compile(module, name, kind, options, static_inputs(kind) if static is None else static)
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


def _compile(module, name, kind, options, static):
    start = time.perf_counter()
    stages = counters.dump_stages()
    if stages:
        counters.dump(name, "fx", module.print_readable(print_output=False)) if "fx" in stages else None
    layouts = layout.saved(module.graph) if kind == "forward" else {}
    translated = Translator(module, static, options.pack_weights, options, layouts).run()
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
    return call
