# hologram_torch/holders.py: which tensors hold the memory of a weight, as calls of compiled graphs see it
"""Calls read versions and how many tensors hold a storage from the memory of PyTorch's tensors (python/_core/tensor_words.h). The
places are learned here from tensors of which all is known; where that fails calls ask Python."""

import torch
from hologram import _core

from . import counters

_others = 1  # what counts as a holder of a storage that one tensor holds, as holders() sees it


def watch() -> None:
    """Learns the places; once is enough."""
    global _others
    _others = 0
    _others = holders(torch.empty(1)) - 1
    groups = _groups()
    samples = [(t, t._cdata, t.untyped_storage()._cdata, -1 if t.is_inference() else t._version, counter, len(group),
                t.untyped_storage().data_ptr(), t.storage_offset()) for group in groups for t, counter in group]  # fmt: skip
    if _core.learn_tensor_words(samples, torch._C.TensorBase, holders) and not _agrees():
        _core.forget_tensor_words()
    array = torch.empty(7)
    _core.learn_resizable(array, lambda: array.numpy())
    _core.learn_allocator([torch.empty(n) for n in (1, 8, 300)], torch.frombuffer(bytearray(8), dtype=torch.uint8))
    _core.set_sharing_teller(_tell)
    counters.tell_compared(_core.compared_weights)


def holders(tensor) -> int:
    """How many tensors hold the storage of this one."""
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) - _others


def overlap(*pair) -> bool:
    """Whether the memory from the first to the last element of two tensors has bytes in common."""
    if not all(t.numel() for t in pair):
        return False
    ends = [t.data_ptr() + (1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))) * t.element_size() for t in pair]
    return max(t.data_ptr() for t in pair) < min(ends)


def _groups() -> list:
    """Groups of tensors over one storage, each with the number of its version counter."""
    groups = []
    with torch.no_grad():
        for n in range(4):
            x = torch.nn.Parameter(torch.zeros(6)) if n % 2 else torch.zeros(6)
            for _ in range(3 + n):
                x.add_(1)
            group = [(x, 10 * n), (x[1 + n :], 10 * n)] + [(x.detach(), 10 * n) for _ in range(n)]
            other = x.data
            other.mul_(2)
            groups.append(group + [(other, 10 * n + 1)] if n < 3 else group)
        with torch.inference_mode():
            groups.append([(torch.zeros(6), 99)])
        groups.append([(torch.frombuffer(bytearray(24), dtype=torch.float32), 98)])  # whose memory and its owner are two
    return groups


def _agrees() -> bool:
    """Whether what was learned holds for tensors that it was not learned from."""
    x = torch.ones(4, 3).requires_grad_()
    seen = [_core.tensor_state(x)]
    aliases = [x.detach(), x.data, torch.empty(0).set_(x.detach().untyped_storage())]
    with torch.no_grad():
        x.mul_(2)
    seen += [_core.tensor_state(t) for t in (x, *aliases)]
    wanted = [(0, 1)] + [(t._version, 4) for t in (x, *aliases)]
    del aliases
    return seen == wanted and _core.tensor_state(x) == (1, 1)


def _tell(weights, size):
    counters.log.warning(
        "what %d packed weights (%.1f MiB) were made of is compared at each call: tensors that Python does not hold, NumPy arrays or "
        "DLPack capsules share their memory and may write it unseen; p.data = p.detach().clone() gives a weight memory of its own",
        weights, size / 2**20)  # fmt: skip
