# hologram_torch/direct.py: calls that need nothing of AOTAutograd's wrapper
import torch


def written(call, graph, arguments):
    """Positions of Dynamo's arguments whose versions a call moves, or None where AOTAutograd's wrapper has other work to do in each call.

    call: what compile_graph returned for `graph`, an inference graph; arguments: those of Dynamo's graph. To be asked while
    PyTorch traces. The wrapper passes its arguments on as they are if none of them equals another one, is taken apart or
    written by anything but the graph itself, and no result is a view or needs an operator of PyTorch, which would see its settings
    for autocast and gradients.
    """
    context = torch._guards.TracingContext.try_get()
    if getattr(context, "fakify_first_call", False):  # DDPOptimizer asks the wrapper for fake results
        return None
    try:
        plain = hasattr(call, "direct") and call.native and _plain(context.fw_metadata, graph, arguments)
        return tuple(context.fw_metadata.mutated_graph_handled_indices_seen_by_autograd) if plain else None
    except AttributeError:  # another version of PyTorch
        return None


def function(call, written):
    """What takes the arguments of `call` one by one, and moves the versions of those at the positions `written`."""
    if written:
        call.move_versions(written, torch.autograd.graph.increment_version)
    return call.direct


def _plain(metadata, graph, arguments) -> bool:
    inputs, outputs = metadata.input_info, metadata.output_info
    values = graph.graph.find_nodes(op="output")[0].args[0]
    wrapped = [m for m in (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta) if type(m).__name__ != "PlainTensorMeta"]
    return (
        len(graph.graph.find_nodes(op="placeholder")) == len(inputs) == len(arguments)
        and len(values) == len(outputs)
        and all(i.mutation_type.name in ("NOT_MUTATED", "MUTATED_IN_GRAPH") for i in inputs)
        and all(o.output_type.name == "non_alias" for o in outputs)
        and not (wrapped or metadata.num_intermediate_bases or metadata.tokens or metadata.num_graphsafe_rng_states)
        and metadata.grad_enabled_mutation is None
    )
