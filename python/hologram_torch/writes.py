# hologram_torch/writes.py: writes into tensors that their version counters do not show
"""What compiled graphs keep of parameters is valid while identity, address, version and epoch hold (python/_core/stamps.h).
Here PyTorch's own ways around the version counter are watched, and those that may bring another tensor to an old address."""

import functools

import torch
from hologram import _core

_RECEIVING = """allgather allgather_coalesced allgather_into_tensor_coalesced _allgather_base all_gather_single
    all_gather_single_coalesced allreduce allreduce_coalesced alltoall alltoall_base all_to_all_single broadcast gather
    gather_into_tensor gather_single recv recv_anysource reduce reduce_scatter _reduce_scatter_base reduce_scatter_single
    reduce_scatter_single_coalesced reduce_scatter_tensor_coalesced scatter""".split()


def watch() -> None:
    """Begins to watch; once is enough. What a version of PyTorch lacks is left out."""
    preserve = getattr(torch.autograd.grad_mode, "_unsafe_preserve_version_counter", None)
    _after(preserve, "__exit__", lambda context, *_: _written(context.tensors))
    _after(torch.nn.Module, "_apply", lambda *_, **__: _core.forget_kept())  # .half().float() may end at the old address
    group = getattr(torch.distributed, "ProcessGroup", None)
    for name in _RECEIVING:  # collectives write without a version
        _after(group, name, lambda _, *args, **kwargs: _written((args, kwargs)))


def _after(owner, name, then):
    """Calls then(*args) after each call of a method."""
    original = getattr(owner, name, None)
    if original is None or hasattr(original, "_hologram"):
        return

    @functools.wraps(original)
    def method(*args, **kwargs):
        try:
            return original(*args, **kwargs)
        finally:
            if not torch.compiler.is_compiling():
                then(*args, **kwargs)

    method._hologram = True
    setattr(owner, name, method)


def _written(tree) -> None:
    if isinstance(tree, torch.Tensor):
        try:
            storage = tree.untyped_storage()
            _core.memory_written(storage.data_ptr(), storage.nbytes())
        except (RuntimeError, NotImplementedError):  # a subclass or a device without an address
            _core.forget_kept()
    elif isinstance(tree, dict):
        for item in tree.values():
            _written(item)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            _written(item)
