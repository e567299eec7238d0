# bench/conformance/opinfo_outs.py: samples of the operator database with tensors for the results, out=
import torch
from torch.utils import _pytree as pytree


def outs(op, inputs, home):
    """Yields (label, (arguments, keywords with out=)). home: what gives the inputs on the host."""
    args, kwargs = inputs
    try:
        their_args, their_kwargs = home(inputs)
        results = op.op(*their_args, **their_kwargs)
    except Exception:  # not a sample
        return
    several = isinstance(results, tuple)
    results = list(results) if several else [results]
    device = next((t.device for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor)), None)
    if device is None or not all(isinstance(r, torch.Tensor) for r in results):
        return
    for label, make in WAYS.items():
        made = [make(r) for r in results]
        if all(t is not None for t in made):
            made = tuple(t.as_strided((t.untyped_storage().nbytes() // t.itemsize,), (1,), 0).to(device)
                         .as_strided(t.shape, t.stride(), t.storage_offset()) for t in made)  # fmt: skip
            yield label, (args, kwargs | {"out": made if several else made[0]})
    first = args[0]
    if not several and isinstance(first, torch.Tensor) and (first.shape, first.dtype) == (results[0].shape, results[0].dtype):
        yield "the first operand", (args, kwargs | {"out": first})


def _filled(shape, dtype):
    return torch.full(shape, 1, dtype=dtype)


# How a tensor for a result is made: what it looks like -> function of the result, None where there is none.
WAYS = {
    "of its sizes": lambda r: _filled(r.shape, r.dtype),
    "empty": lambda r: torch.empty(0, dtype=r.dtype),
    "every second element": lambda r: _filled((*r.shape, 2), r.dtype)[..., 0] if r.numel() else None,
    "transposed": lambda r: _filled((*r.shape[:-2], r.shape[-1], r.shape[-2]), r.dtype).mT if r.dim() > 1 and r.numel() else None,
    "wider": lambda r: _filled(r.shape, torch.float64) if r.dtype == torch.float32 else None,
    "of integers": lambda r: _filled(r.shape, torch.int32),
    "larger": lambda r: _filled([n + 1 for n in r.shape], r.dtype) if r.dim() else None,
}
