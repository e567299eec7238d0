# hologram_torch/accelerator/__init__.py: device="hologram" of PyTorch
"""`hologram_torch.device.use()` makes "hologram" a device of PyTorch's in this process: its PrivateUse1, without a line of C++."""

import threading

from hologram import _core

from .. import runtimes

_lock = threading.Lock()
_libraries = []  # what PyTorch was told lives as long as these do
_BACKENDS = ("cpu", "interp")  # whose memory is the host's


def use(backend: str = "cpu") -> None:
    """Makes "hologram" a device, whose tensors lie in the memory of a backend and whose operators are its kernels. Call it before
    the process's first backward(): PyTorch makes its threads for gradients then, for the devices that it knows.

    backend: "cpu", or "interp", which executes kernels by their definition; another one than before serves from now on.

    Raises:
        ValueError: a backend whose memory is not the host's, or none of this build.
        RuntimeError: PyTorch's device for extensions is another package's already.
    """
    if backend not in _BACKENDS or backend not in _core.Runtime.backends():
        raise ValueError(f"hologram_torch.device.use: backend: one of {', '.join(_BACKENDS)} is expected, got {backend!r}")
    with _lock:
        runtimes.choose(runtimes.EXTENSION, backend)
        from . import lazily, registration

        lazily.open_queue()
        if not _libraries:
            _libraries.extend(registration.register())
            lazily.switch(True)


class lazy:
    """Whether calls of operators wait until somebody looks at what they would read or write, and then run as one graph, which writes
    those results alone that are still held: so it is after the first use(). `lazy(False)`: from now on they run as they are called.
    As a context manager: inside. For all threads. Nobody is seen to look who reads memory by its address (data_ptr()): call
    torch.hologram.synchronize() before."""

    def __init__(self, on: bool = True):
        from . import lazily

        self._before = lazily.switch(bool(on))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        from . import lazily

        lazily.switch(self._before)


def stats() -> dict:
    """What operators on device="hologram" have done since the process began.

    kernel_ops: {operator: calls} that our kernels ran
    fallback_ops: {operator: calls} that PyTorch's kernels for the host ran, on the device's memory
    compiled: kernels made for single operators
    lazy: {"runs": how often calls that waited were run, "fused": of these as one graph, "compiled": graphs made}
    """
    from . import fallback, kernels, lazily

    counts = {"kernel_ops": kernels.counted(), "fallback_ops": dict(fallback.calls), "compiled": kernels.compiled}
    return counts | {"lazy": dict(lazily.counts)}
