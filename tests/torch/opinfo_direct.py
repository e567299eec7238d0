# tests/torch/opinfo_direct.py: a backend called without Dynamo
import torch
from torch._dynamo import lookup_backend
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree


def compile_directly(function, inputs, backend, training):
    """`function` for arguments of the types, shapes and numbers of `inputs`, a tree of arguments
    and keywords, as a graph of make_fx compiled by the backend."""
    leaves, spec = pytree.tree_flatten(inputs)
    where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    result = {}

    def flat(*tensors):
        full = list(leaves)
        for i, tensor in zip(where, tensors):
            full[i] = tensor
        args, kwargs = pytree.tree_unflatten(full, spec)
        out, result["spec"] = pytree.tree_flatten(function(*args, **kwargs))
        result["fixed"] = {i: v for i, v in enumerate(out) if not isinstance(v, torch.Tensor)}
        return tuple(v for v in out if isinstance(v, torch.Tensor))

    examples = [leaves[i] for i in where]
    with torch.set_grad_enabled(training):
        graph = make_fx(flat, pre_dispatch=True)(*examples)
        compiled = (lookup_backend(backend) if isinstance(backend, str) else backend)(graph, examples)

    def call(*args, **kwargs):
        given = pytree.tree_leaves((args, kwargs))
        tensors = iter(compiled(*[given[i] for i in where]))
        count = result["spec"].num_leaves
        out = [result["fixed"][i] if i in result["fixed"] else next(tensors) for i in range(count)]
        return pytree.tree_unflatten(out, result["spec"])

    return call
