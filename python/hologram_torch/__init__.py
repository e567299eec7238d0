# hologram_torch/__init__.py: Hologram for PyTorch: torch.compile(model, backend="hologram")
"""Compiles PyTorch models to native kernels.

    compiled = torch.compile(model, backend="hologram")

`stats()` tells what was compiled and which operators ran in PyTorch; `explain(model, *inputs)` shows how one model
becomes kernels. Importing this package is cheap: PyTorch and the compiler load on first use.
"""

_HOME = {
    "hologram": "backend",
    "stats": "counters",
    "reset_stats": "counters",
    "explain": "explain",
    "export": "archive",
    "profile": "profiling",
    "export_program": "archive",
    "export_generation": "generation",
    "freeze": "frozen",
    "quantize": "quantized",
    "generate": "generation",
    "release_memory": "runtimes",
    "training_step": "training",
    "custom_op": "eager.custom",
    "HologramTensor": "dlpack",
}
_SDK = ("BackendType", "Buffer", "Executor")  # of hologram
_MODULES = ("autograd", "device", "functional", "library", "nn", "optim", "utils")

__all__ = sorted([*_HOME, *_SDK, *_MODULES])


def __getattr__(name):
    import importlib

    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value  # also over a submodule of the same name
        return value
    if name in _SDK:
        return getattr(importlib.import_module("hologram"), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
