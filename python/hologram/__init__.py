# hologram/__init__.py: the Python SDK (needs no PyTorch)
"""Hologram: a tensor compiler and runtime.

    import hologram, numpy as np

    with hologram.Executor() as executor:
        a, b = executor.from_numpy(x), executor.from_numpy(y)
        c = executor.allocate(len(x))
        hologram.ops.vector_add(executor, a, b, c)
        c.to_numpy()

    @hologram.jit
    def f(x, y):
        return np.tanh(x @ y).sum(axis=-1)   # one or few native kernels

The native part is ``hologram._core``; PyTorch is used by the separate package ``hologram_torch``, and the C interface as
plain functions is ``hologram_ffi``.
"""

import os
import sys

TYPE_CHECKING = False  # checkers take it for True; typing would take half as long as all else here

try:
    from hologram._core import Buffer, Executor, HologramError, __version__, version
except ImportError as error:
    raise ImportError(
        f"hologram: the native module hologram._core could not be loaded ({error}); install it with "
        "'pip install hologram-compute', or in a source tree build it with 'make build' and set "
        "PYTHONPATH=build/release/python"
    ) from error


def _offer_libraries() -> None:
    """Says where pip puts wgpu-native; neither the package nor what finds packages is imported."""
    from hologram import _core

    name = {"darwin": "libwgpu_native-release.dylib", "win32": "wgpu_native-release.dll"}.get(sys.platform, "libwgpu_native-release.so")
    for folder in sys.path:
        path = os.path.join(folder, "wgpu", "resources", name)
        if os.path.exists(path):
            _core.offer_setting("HOLOGRAM_WEBGPU_LIBRARY", path)
            return


_offer_libraries()

if TYPE_CHECKING:
    from typing import Any

    from hologram import backend, ops
    from hologram._jit import jit
    from hologram.archive import load
    from hologram.backend import (
        BackendType,
        device_count,
        get_default_backend,
        is_cuda_available,
        is_metal_available,
        validate_backend,
    )
    from hologram.generation import generate
    from hologram.onnx.model import from_onnx
    from hologram.profiling import profile
    from hologram.stream import Event, Stream
    from hologram.tensor import Tensor, default_executor, from_dlpack

_LAZY = {
    "BackendType": "backend",
    "device_count": "backend",
    "get_default_backend": "backend",
    "is_cuda_available": "backend",
    "is_metal_available": "backend",
    "validate_backend": "backend",
    "jit": "_jit",
    "generate": "generation",
    "load": "archive",
    "from_onnx": "onnx.model",
    "profile": "profiling",
    "Event": "stream",
    "Stream": "stream",
    "Tensor": "tensor",
    "default_executor": "tensor",
    "from_dlpack": "tensor",
}

__all__ = [
    "BackendType",
    "Buffer",
    "Event",
    "Executor",
    "HologramError",
    "Stream",
    "Tensor",
    "__version__",
    "backend",
    "default_executor",
    "device_count",
    "from_dlpack",
    "from_onnx",
    "generate",
    "get_default_backend",
    "is_cuda_available",
    "is_metal_available",
    "jit",
    "load",
    "ops",
    "profile",
    "validate_backend",
    "version",
]


def __getattr__(name: str) -> "Any":
    if name in _LAZY:
        import importlib

        value = getattr(importlib.import_module(f"hologram.{_LAZY[name]}"), name)
        globals()[name] = value  # also over a submodule of the same name
        return value
    if name in ("backend", "ops"):
        import importlib

        return importlib.import_module(f"hologram.{name}")
    raise AttributeError(f"module 'hologram' has no attribute {name!r}")
