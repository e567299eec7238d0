# hologram_torch/direct.py: calls that need nothing of AOTAutograd's wrapper
import torch


def direct(call, graph, arguments):
    """The compiled graph as a function of Dynamo's arguments, or None where AOTAutograd's wrapper has work to do in each call.

    call: what compile_graph returned for `graph`, an inference graph; arguments: those of Dynamo's graph. To be asked while
    PyTorch traces. The wrapper passes its arguments on as they are if none of them is written, equals another one or is taken
    apart, and no result is a view or needs an operator of PyTorch, which would see its settings for autocast and gradients.
    """
    function = getattr(call, "direct", None)
    context = torch._guards.TracingContext.try_get()
    if getattr(context, "fakify_first_call", False):  # DDPOptimizer asks the wrapper for fake results
        return None
    try:
        return function if function and call.native and _plain(context.fw_metadata, graph, arguments) else None
    except AttributeError:  # another version of PyTorch
        return None


def _plain(metadata, graph, arguments) -> bool:
    inputs, outputs = metadata.input_info, metadata.output_info
    values = graph.graph.find_nodes(op="output")[0].args[0]
    wrapped = [m for m in (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta) if type(m).__name__ != "PlainTensorMeta"]
    return (
        len(graph.graph.find_nodes(op="placeholder")) == len(inputs) == len(arguments)
        and len(values) == len(outputs)
        and not any(i.mutates_data or i.mutates_metadata for i in inputs)
        and all(o.output_type.name == "non_alias" for o in outputs)
        and not (wrapped or metadata.num_intermediate_bases or metadata.tokens or metadata.num_graphsafe_rng_states)
        and metadata.grad_enabled_mutation is None
    )
