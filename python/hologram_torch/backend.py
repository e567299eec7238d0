# hologram_torch/backend.py: the entry point of torch.compile(backend="hologram")


def hologram(gm, example_inputs, *, mode=None, options=None, name=None, **_):
    """Compiles a graph that Dynamo captured.

    mode: None, "default" or another of PyTorch's (which change nothing), "reproducible", "fast".
    options: {"reproducible": bool, "fast": bool, "pack_weights": bool}, see options.Options.
    """
    from functorch.compile import min_cut_rematerialization_partition
    from torch._functorch.aot_autograd import aot_module_simplified

    import torch

    from . import parameters, precision
    from .capture import decomp, rewrite
    from .compiler import compile_graph
    from .direct import direct
    from .options import Options

    chosen = Options.make(mode, options)
    brief = precision.allowed()
    static = None if parameters.may_be_kept(gm, example_inputs) else ()  # None: by PyTorch's tracing
    rewrite.dynamo_graph(gm)

    found = []

    def compiler(kind):
        return lambda graph, inputs: compile_graph(graph, kind, chosen, static, inputs, brief)

    def inference(graph, inputs):
        call = compile_graph(graph, "inference", chosen, static, inputs)
        found.append(direct(call, graph, example_inputs))
        return call

    torch._dynamo.utils.counters["aot_autograd"]["total"] += 1  # DDPOptimizer looks here for who traces by AOTAutograd
    with torch.compiler.config.patch(cache_key_tag=f"hologram-{chosen.tag()}{brief:d}"):
        compiled = aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=compiler("forward"),
            bw_compiler=torch._dynamo.disable(compiler("backward")),
            inference_compiler=inference,
            partition_fn=min_cut_rematerialization_partition,
            decompositions=decomp.table(),
            keep_inference_input_mutations=True,
        )
    return torch._dynamo.disable(found[0] if found and found[0] else compiled)


def _prepare():
    """PyTorch calls this whenever the backend is looked up."""
    from .capture.recurrent import allow_layers

    allow_layers(hologram)


hologram._dynamo_backend_init = _prepare
