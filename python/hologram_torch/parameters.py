# hologram_torch/parameters.py: which inputs of a graph keep their content from call to call, and tell when they do not
import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def positions(module, kind: str) -> list:
    """Of parameters and buffers among the arguments of the AOT graph that is being compiled. A tensor inside a subclass
    (DTensor) is none: operators on the subclass write into it without moving its version."""
    if kind == "backward":
        return []
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    static = set(getattr(metadata, "static_input_indices", None) or [])
    inputs = module.graph.find_nodes(op="placeholder")
    return [i for i, node in enumerate(inputs) if i in static and not _inner(node)]


def trains(kind: str) -> bool:
    """Whether the AOT graph that is being compiled is part of a training step: a pass, or what writes parameters."""
    if kind != "inference":
        return True
    metadata = getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None)
    return any(i.mutates_data and i.requires_grad for i in getattr(metadata, "input_info", ()))


def may_be_kept(module, examples) -> bool:
    """Whether anything may be kept of the inputs of Dynamo's graph. Not under FSDP, which fills its parameters anew for each
    call and frees them behind it, not for subclasses where this PyTorch does not name the tensors inside, and not of lists."""
    if not isinstance(module, torch.fx.GraphModule):
        return False
    inputs = module.graph.find_nodes(op="placeholder")
    if any(_fsdp(getattr(node, "_dynamo_source", None)) for node in inputs):
        return False
    return _DESCRIBED or not any(is_traceable_wrapper_subclass(x) for x in examples if isinstance(x, torch.Tensor))


def plain(tensor) -> bool:
    """Whether a tensor's own version counter tells of every write."""
    return not is_traceable_wrapper_subclass(tensor)


def _inner(node) -> bool:
    return "Subclass" in type(node.meta.get("desc")).__name__


def _fsdp(source) -> bool:
    kind = getattr(source, "guard_source", None)
    kind = kind() if callable(kind) else kind
    return kind is not None and kind.is_fsdp_module()


try:
    from torch._functorch._aot_autograd.descriptors import SubclassGetAttrAOTInput  # noqa: F401

    _DESCRIBED = True
except ImportError:
    _DESCRIBED = False
