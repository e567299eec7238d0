# hologram_torch/accelerator/module.py: `torch.hologram`, what PyTorch asks of a device's module
"""One device, number 0, whose work ends before its call does, or waits for who looks. Random numbers are those of PyTorch's generator
for the host, so that a seed gives what it gives on "cpu"."""

import contextlib

import torch

_NAME = "hologram"


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def init() -> None:
    """Nothing is left to do."""


_lazy_init = init


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def set_device(device) -> None:
    """Device 0 alone can be chosen."""
    if (_index := _number(device)) != 0:
        raise RuntimeError(f"torch.hologram.set_device: there is device 0 alone, got {_index}")


def _number(device) -> int:
    if device is None:
        return 0
    return device if isinstance(device, int) else torch.device(device).index or 0


@contextlib.contextmanager
def device(device):
    """Inside, the device is the current one."""
    set_device(device)
    yield


def get_device_name(device=None) -> str:
    return _NAME


def synchronize(device=None) -> None:
    """Runs the operators that wait (hologram_torch.device.lazy); all others have ended when their calls have."""
    from . import lazily

    lazily.flush()


def empty_cache() -> None:
    """Gives memory that the pool keeps for later back to the system."""
    from .. import runtimes

    synchronize()
    runtimes.release_memory()


def get_amp_supported_dtype() -> list:
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation=True) -> bool:
    return True


def _is_in_bad_fork() -> bool:
    return False


def manual_seed(seed: int) -> None:
    """Seeds the host's generator, whose numbers the device draws."""
    torch.default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed


def seed() -> int:
    return torch.default_generator.seed()


def initial_seed() -> int:
    return torch.default_generator.initial_seed()


def get_rng_state(device=_NAME):
    return torch.default_generator.get_state()


def set_rng_state(new_state, device=_NAME) -> None:
    torch.default_generator.set_state(new_state.cpu())


def get_rng_state_all() -> list:
    return [get_rng_state()]


def set_rng_state_all(new_states) -> None:
    for state in new_states:
        set_rng_state(state)
