# hologram/backend.py: which backends exist and which one is chosen
"""Names of backends and what of them this machine and build offer."""

import enum
from typing import Union

from hologram import _core

__all__ = ["BackendType", "device_count", "get_default_backend", "is_cuda_available", "is_metal_available", "validate_backend"]


class BackendType(enum.Enum):
    """A kind of device; AUTO takes the best one there is."""

    CPU = "cpu"
    METAL = "metal"
    CUDA = "cuda"
    AUTO = "auto"


def is_metal_available() -> bool:
    """Whether Executor("metal") would succeed."""
    return bool(_core.ffi.backend_is_available("metal"))


def is_cuda_available() -> bool:
    """Whether Executor("cuda") would succeed."""
    return bool(_core.ffi.backend_is_available("cuda"))


def device_count(backend: Union[str, BackendType] = "cuda") -> int:
    """How many devices of a backend there are: Executor("cuda:1") is on the second one. 0 where the backend is absent."""
    return int(_core.ffi.device_count(validate_backend(backend)))


def get_default_backend() -> str:
    """What "auto" means here: the first backend with a device of those that HOLOGRAM_AUTO names, else "cpu"."""
    asked = [name for name in _core.setting("HOLOGRAM_AUTO") if name in _core.Runtime.backends(True)]
    return next((name for name in asked if device_count(name) > 0), "cpu")


def validate_backend(name: Union[str, BackendType]) -> str:
    """The backend's name in lower case, with a device's number if it has one. ValueError, listing the names, for another."""
    text = name.value if isinstance(name, BackendType) else name
    known = [backend.value for backend in BackendType]
    known += [name for name in _core.Runtime.backends(True) if name not in known]
    base, colon, number = text.lower().partition(":") if isinstance(text, str) else ("", "", "")
    if base not in known or (colon and not number.isdecimal()):
        raise ValueError(f"backend {name!r} is unknown; expected one of {', '.join(known)}")
    return text.lower()
