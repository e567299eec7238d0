# hologram_torch/capture/chunked.py: a linear layer and its cross entropy, which PyTorch computes chunk of rows by chunk of rows
"""PyTorch's own loop (torch/nn/modules/linear_cross_entropy.py), written out without its writes in place, where it is short."""

import sys
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes

_MOST_CHUNKS = 16
_MODULE = "torch.nn.modules.linear_cross_entropy"
_LOOP = "_linear_cross_entropy_batch_chunked_accumulator"


def known() -> bool:
    """Whether PyTorch has the operators by now: it imports their module when somebody uses them."""
    return hasattr(sys.modules.get(_MODULE), _LOOP)


def _short(x, rows) -> bool:
    return x.device.type == "cpu" and all(type(n) is int and n > 0 for n in (*x.shape, rows)) and -(-len(x) // rows) <= _MOST_CHUNKS


def _reduced(x, weight, target, bias, classes, reduction, ignored, smoothing, rows, policy, dtype, retain, *wanted):
    """The loss, and the gradients that are wanted of the input, the weight and the bias."""
    if not _short(x, rows):
        return NotImplemented

    def run(*tensors):
        x, weight, target, *rest = tensors
        bias = None if no_bias else rest.pop(0)
        classes = rest.pop(0) if rest else None
        loop = getattr(sys.modules[_MODULE], _LOOP)
        return loop(x, weight, target, bias, classes, reduction, ignored, smoothing, rows, policy, dtype, *wanted)

    tensors, no_bias = [t for t in (x, weight, target, bias, classes) if t is not None], bias is None
    with ThreadPoolExecutor(1) as pool:  # with none of the tracing around this one
        graph = pool.submit(_without_writes, run, [_like(t) for t in tensors]).result()
    return graph(*tensors)


def _like(t):
    with _disable_current_modes():
        return torch.zeros([int(n) for n in t.shape], dtype=t.dtype)


def _without_writes(run, examples):
    with torch.no_grad():
        return make_fx(torch.func.functionalize(run))(*examples)


def _each(x, weight, target, bias, classes, ignored, rows, policy, dtype):
    """The loss of each row."""
    found = _reduced(x, weight, target, bias, classes, "none", ignored, 0.0, rows, policy, dtype, False, False, False, False)
    return found if found is NotImplemented else found[0]


def table() -> dict:
    """The functions by operator overload."""
    if not known():
        return {}
    named = {"_linear_cross_entropy_batch_chunked": _reduced, "_linear_cross_entropy_batch_chunked_no_reduction": _each}
    return {getattr(torch.ops.torch_nn, name).default: form for name, form in named.items() if hasattr(torch.ops.torch_nn, name)}
