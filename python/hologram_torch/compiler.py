# hologram_torch/compiler.py: one AOT graph → one native callable
import functools
import itertools
import time

import torch

from . import counters, device, holders, parameters, precision, profiling, writes
from .options import Options, strict
from .program import Program, Programs
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
holders.watch()
writes.watch()
profiling.watch()


def compile_graph(module, kind: str, options: Options, static=None, examples=(), brief=None, keep=False):
    """A callable over one list (which it clears) that runs the graph. Where compiling fails, PyTorch runs the graph,
    with a warning; with HOLOGRAM_STRICT=1 the error is raised. `static`: positions of parameters, where PyTorch's tracing
    does not tell them; `examples`: tensors like those of the calls; `brief`: precision.allowed() when the graph was
    captured; `keep`: to leave the Programs that the callable was made of as its attribute `programs`."""
    name = f"{kind}_{next(_numbers)}"
    try:
        if kind == "backward":
            layout.adopt(module, examples)
        hidden = layout.hidden(module.graph, kind)
        layouts = layout.saved(module.graph, hidden) if kind == "forward" else {}
        static = parameters.positions(module, kind) if static is None else static
        make = functools.partial(_translate, module, name, options, static, layouts, hidden)
        brief = precision.allowed() if brief is None else brief
        programs = Programs(make, _varies(module, options, brief), options.fast, keep)
        call = programs.compile()
        layout.report(module.graph, layouts)
        if keep:
            call.programs = programs
        return call
    except counters.DumpError:  # the user's to mend; nothing to report
        raise
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


def _varies(module, options: Options, brief) -> str | None:
    """The type of device that float32 products of ours are on, if permissions may let them have fewer bits."""
    kind = device.of(module.graph).partition(":")[0]
    ours = kind == "cpu" or options.own_products()
    return kind if (kind in brief or options.fast) and ours and not options.reproducible and _has_products(module) else None


_PRODUCTS = {getattr(torch.ops.aten, name) for name in ("mm", "bmm", "addmm", "baddbmm")}


def _has_products(module) -> bool:
    return any(
        getattr(node.target, "overloadpacket", None) in _PRODUCTS and node.meta["val"].dtype == torch.float32
        for node in module.graph.nodes
    )


def _translate(module, name, options, static, layouts, hidden, treatment) -> Program:
    start = time.perf_counter()
    if "fx" in counters.dump_stages():
        counters.dump(name, "fx", module.print_readable(print_output=False))
    where = device.of(module.graph)
    with device.on(where), device.products(options.own_products()):
        translated = Translator(module, static, options.pack_weights, options, layouts, treatment, hidden).run()
    return Program.of(name, translated, options, 1e3 * (time.perf_counter() - start), where)
