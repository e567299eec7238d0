# hologram_torch/profiling.py: the steps of compiled graphs, by profile() and in PyTorch's profiler
import functools

import torch
from hologram import _core
from torch.autograd import profiler

import hologram

from . import runtimes


def profile():
    """A block in which each kernel of compiled models, frozen ones, archives and `hologram.jit` is timed: `with profile() as found`;
    print(found) is then a table, found.save() writes a Chrome trace (.json) or a page (.html). See hologram.profile."""
    return hologram.profile((runtimes.runtime(), *runtimes.made()))


def watch() -> None:
    """Begins to follow the profiler; once is enough. While it is on, calls run step by step, each step a region of its own.
    Where PyTorch's internals are not as expected, a call is one opaque region."""
    original = getattr(profiler, "_set_is_profiler_enabled", None)
    region = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", None)
    if original is None or region is None or hasattr(original, "_hologram"):
        return

    @functools.wraps(original)
    def follow(enable):
        original(enable)
        _core.set_recorder(region if enable else None)

    follow._hologram = True
    profiler._set_is_profiler_enabled = follow
    follow(profiler._is_profiler_enabled)
