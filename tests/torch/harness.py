# tests/torch/harness.py: what the PyTorch tests share: the backend under test and value checks
import copy
import os
import subprocess
import time
from pathlib import Path

import same_memory
import torch
from torch.utils import _pytree as pytree

BACKEND = os.environ.get("HOLOGRAM_TEST_BACKEND", "hologram")
"""The torch.compile backend under test; another one's name checks the tests themselves."""


def seed_of(variable: str) -> int:
    """The seed that an environment variable names; else one of the commit, so that each commit tries other
    samples and every run of it the same; printed, to repeat it."""
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, check=True)
        default = int(head.stdout[:7], 16)
    except (OSError, subprocess.CalledProcessError):
        default = time.time_ns() % (1 << 28)
    seed = int(os.environ.get(variable, default))
    print(f"{variable}={seed}")
    return seed


def compile_fresh(module, **options):
    """torch.compile with the backend under test, without earlier compilations and counts."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    if BACKEND == "hologram":
        import hologram_torch

        hologram_torch.reset_stats()
    return torch.compile(module, backend=BACKEND, **options)


def graph_count() -> int:
    """Graphs that Dynamo captured since the last compile_fresh."""
    return torch._dynamo.utils.counters["stats"].get("unique_graphs", 0)


def backend_stats() -> dict:
    """What the backend under test counted; nothing for another one than ours."""
    if BACKEND != "hologram":
        return {"failed_graphs": 0, "fallback_ops": {}, "kernel_cache_misses": 0}
    import hologram_torch

    return hologram_torch.stats()


def floats_to(tree, dtype):
    """The same tree of tensors with the floating-point ones cast."""
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, tree)


def run_eager(module, inputs, dtype=None):
    """Runs a copy of the module, so that its buffers stay as they are; optionally in another
    dtype."""
    module = copy.deepcopy(module)
    if dtype is not None:
        module, inputs = module.to(dtype), floats_to(inputs, dtype)
    with torch.no_grad():
        return module(*inputs)


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def gradients(call, inputs, *rest):
    """The result and the gradients of `inputs`, for one fixed gradient of the result."""
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    out = call(*inputs, *rest)
    return (out.detach(), *torch.autograd.grad(out, inputs, normal(*out.shape, seed=7, dtype=out.dtype)))


def module(**parts):
    """Makes a function of (self, …) the forward of a class of modules; each has parts of its own, which these functions make."""

    def decorate(forward):
        def __init__(self):
            torch.nn.Module.__init__(self)
            for name, make in parts.items():
                part = make()
                is_buffer = isinstance(part, torch.Tensor) and not isinstance(part, torch.nn.Parameter)
                self.register_buffer(name, part) if is_buffer else setattr(self, name, part)

        named, title = {name: getattr(forward, name) for name in ("__module__", "__qualname__", "__doc__")}, forward.__name__
        forward.__code__ = forward.__code__.replace(co_name="forward")  # as stack traces of exported programs have it
        return type(title, (torch.nn.Module,), {"__init__": __init__, "forward": forward, **named})

    return decorate


def rms(x) -> float:
    return x.double().square().mean().sqrt().item()


def check(actual, eager, truth=None, strides=True):
    """Compares with eager by PyTorch's default tolerances of the dtype; the same results share memory.

    Below 32 bits, where two right implementations may round a value to neighbours and a deep model
    spreads that, an error against the truth (the same weights in float32) of at most twice eager's
    will do, as in PyTorch's own comparison of models (torch._dynamo.utils.same).
    """
    truth = eager if truth is None else truth
    for x, e, t in zip(*map(pytree.tree_leaves, (actual, eager, truth)), strict=True):
        assert (x.shape, x.dtype) == (e.shape, e.dtype)
        assert not strides or x.stride() == e.stride()
        assert torch.equal(x.isfinite(), e.isfinite())
        if t.dtype != e.dtype and rms(x.double() - t.double()) <= 2 * rms(e.double() - t.double()):
            continue
        torch.testing.assert_close(x, e)
    assert same_memory.overlaps(actual) == same_memory.overlaps(eager)
