# hologram_torch/backend.py: the entry point of torch.compile(backend="hologram")
import contextlib
import functools


def hologram(gm, example_inputs, *, mode=None, options=None, name=None, **_):
    """Compiles a graph that Dynamo captured.

    mode: None, "default" or another of PyTorch's ("reduce-overhead" sets cudagraphs), "reproducible", "fast".
    options: {"device": str, "reproducible": bool, "fast": bool, "pack_weights": bool, "cache": bool, "cudagraphs": bool,
        "native_products": bool},
        see options.Options.
    """
    from torch._functorch import config
    from torch._functorch.aot_autograd import aot_module_simplified

    import torch

    from . import direct, owners, parameters, precision, runtimes, twice
    from .capture import decomp, partition, rewrite
    from .compiler import compile_graph
    from .options import Options

    if any(isinstance(value, (list, tuple, dict)) for value in example_inputs):  # compiled autograd's, a list of tensors
        whole = functools.partial(hologram, mode=mode, options=options)
        return torch._dynamo.utils.flatten_graph_inputs(gm, example_inputs, whole)
    chosen = Options.make(mode, options)
    runtimes.check_settings(chosen.device)
    of_lists = not isinstance(gm, torch.fx.GraphModule)  # flatten_graph_inputs calls with one list
    brief = precision.allowed()
    static = None if parameters.may_be_kept(gm, example_inputs) else ()  # None: by PyTorch's tracing
    with runtimes.owning(owners.own(chosen)):
        rewrite.dynamo_graph(gm)
    keep = chosen.cache or getattr(config, "force_autograd_cache", False)  # as aot_compile sets it
    if keep:
        from . import saved  # of PyTorch's internals
    ready = []  # what needs nothing of AOTAutograd's wrapper

    def compiler(kind):
        def compile(graph, inputs):
            call = compile_graph(graph, kind, chosen, static, inputs, brief, keep)
            written = direct.written(call, graph, example_inputs) if kind == "inference" and not of_lists else None
            ready.append(direct.function(call, written)) if written is not None else None
            return saved.attach(call, written) if keep else call

        return compile

    backward = torch._dynamo.disable(compiler("backward"))
    loaded = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(runtimes.owning(owners.own(chosen)))  # for what tracing looks at
        stack.enter_context(twice.explained())
        if keep:
            loaded = stack.enter_context(saved.loading(f"{chosen.tag()}{'+'.join(sorted(brief))}{static is None:d}"))
        torch._dynamo.utils.counters["aot_autograd"]["total"] += 1  # DDPOptimizer looks here for who traces by AOTAutograd
        compiled = aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=compiler("forward"),
            bw_compiler=saved.later(backward) if keep else backward,
            inference_compiler=compiler("inference"),
            partition_fn=partition.partition,
            decompositions=decomp.table(),
            keep_inference_input_mutations=True,
        )
    ready += filter(None, (code.function() for code in loaded))
    outer = torch._dynamo.disable(ready[0] if ready else compiled)
    if keep:
        outer.serialize = getattr(compiled, "serialize", None)  # for aot_compile
    return outer


def _prepare():
    """PyTorch calls this whenever the backend is looked up."""
    from .capture.recurrent import allow_layers

    allow_layers(hologram)


hologram._dynamo_backend_init = _prepare
