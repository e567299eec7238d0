# hologram_torch/device.py: the one native runtime of this process
import functools
import os
import threading

_lock = threading.Lock()


@functools.cache
def _make(backend: str):
    from hologram import _core

    return _core.Runtime(backend)


def runtime():
    """Backend, threads, pools and kernel cache that all compiled graphs share. HOLOGRAM_BACKEND chooses another
    backend than the native one: "interp" executes kernels by their definition."""
    with _lock:
        return _make(os.environ.get("HOLOGRAM_BACKEND", "cpu"))


def holds(tensor) -> bool:
    """Whether graphs take the tensor, real or fake, where it lies."""
    return tensor.device.type == "cpu"


def thread_count():
    """What tells the thread count at each call: PyTorch's setting, unless HOLOGRAM_NUM_THREADS says one."""
    import torch

    return None if "HOLOGRAM_NUM_THREADS" in os.environ else torch.get_num_threads


def release_memory() -> int:
    """Gives the memory that the pools keep for later back to the system; returns the bytes."""
    return runtime().release_memory()
