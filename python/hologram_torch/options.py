# hologram_torch/options.py: what a user may ask of the backend
import dataclasses

from hologram import _core

# PyTorch's own modes promise only speed; Hologram's default already is its fastest at full accuracy. "reduce-overhead" has GPUs
# take launches together from the first call on.
_MODES = {
    "default": {},
    "reduce-overhead": {"cudagraphs": True},
    "max-autotune": {},
    "max-autotune-no-cudagraphs": {},
    "reproducible": {"reproducible": True},
    "fast": {"fast": True},
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Choices of one torch.compile call.

    device: the backend that runs graphs of the host's tensors, "webgpu" say, as HOLOGRAM_BACKEND.
    reproducible: the same bits on every machine and thread count; also set by HOLOGRAM_REPRODUCIBLE=1 and
        torch.use_deterministic_algorithms(True).
    fast: float32 products may use two bfloat16 terms, as under torch.set_float32_matmul_precision("high"), and round twice where
        no instruction fuses multiplication and addition (in WebAssembly), and narrowing casts that are widened again may go.
    pack_weights: keep what depends on parameters alone (packed weights) between calls.
    cudagraphs: on CUDA, launch the kernels between two operators of PyTorch as one graph, from two kernels and from the first
        call on; False: never. By default from eight kernels on, when sizes come for the third time.
    native_products: on CUDA, products, convolutions, attention and long sorts are kernels of ours (True) or PyTorch's (False); also set by
        HOLOGRAM_CUDA_PRODUCTS. By default `owners` decides.
    recompute: the graph is a whole training step whose result is the loss: what its gradients read of the forward pass is computed
        again where that takes less memory. `training_step` asks for it.
    cache: keep what AOTAutograd traces in PyTorch's cache on disk, and take it from there; also set by
        HOLOGRAM_AUTOGRAD_CACHE=1. Asking that cache loads Inductor, which takes a process more than tracing a small model.
    """

    device: str | None = None
    reproducible: bool = False
    fast: bool = False
    pack_weights: bool = True
    recompute: bool = False
    cache: bool = False
    cudagraphs: bool | None = None
    native_products: bool | None = None

    @classmethod
    def make(cls, mode: str | None, options: dict | None) -> "Options":
        """Checks what torch.compile was given. Raises ValueError or TypeError naming what is allowed."""
        import torch

        if mode is not None and mode not in _MODES:
            raise ValueError(f"hologram: mode {mode!r} is none of {', '.join(map(repr, _MODES))}")
        chosen = dict(_MODES[mode or "default"])
        names = {field.name for field in dataclasses.fields(cls)}
        for key, value in (options or {}).items():
            if key not in names:
                raise ValueError(f"hologram: option {key!r} is none of {', '.join(map(repr, sorted(names)))}")
            if key == "device":
                value = _backend(value)
            elif not isinstance(value, bool):
                raise TypeError(f"hologram: option {key!r} takes True or False, got {value!r}")
            chosen[key] = value
        if _core.setting("HOLOGRAM_REPRODUCIBLE") or torch.are_deterministic_algorithms_enabled():
            chosen.setdefault("reproducible", True)
        if _core.setting("HOLOGRAM_AUTOGRAD_CACHE"):
            chosen.setdefault("cache", True)
        if whose := _core.setting("HOLOGRAM_CUDA_PRODUCTS"):
            chosen.setdefault("native_products", whose == "own")
        return cls(**chosen)

    def tag(self) -> str:
        """Distinguishes results of different options in PyTorch's caches."""
        return "".join({False: "0", True: "1", None: "-"}.get(value, value) for value in dataclasses.astuple(self))


def _backend(name) -> str:
    known = _core.Runtime.backends(True)
    if not isinstance(name, str) or name.partition(":")[0] not in known:
        raise ValueError(f"hologram: option 'device': {name!r} is none of {', '.join(map(repr, known))}")
    return name


def strict() -> bool:
    """HOLOGRAM_STRICT=1: failures are raised instead of being left to PyTorch."""
    return _core.setting("HOLOGRAM_STRICT")
