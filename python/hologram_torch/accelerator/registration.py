# hologram_torch/accelerator/registration.py: what PyTorch is told of device="hologram"
import torch
from torch.utils import backend_registration

from .. import counters, runtimes
from . import autocast, draws, fallback, kernels, module, outs, tensors


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self):
        return True

    def has_primary_context(self, device_index):
        return True

    def is_built(self):
        return True


class _Guard(torch._C._acc.DeviceGuard):
    def type_(self):
        return torch._C._autograd.DeviceType.PrivateUse1


_kept = _Hooks(), _Guard()  # PyTorch holds no reference to them


def register() -> list:
    """Registers the device; returns what has to live on."""
    name = torch._C._get_privateuse1_backend_name()
    if name not in ("privateuseone", runtimes.EXTENSION) or hasattr(torch, runtimes.EXTENSION):
        raise RuntimeError(f"hologram_torch.device.use: PyTorch's device for extensions is {name!r} already")
    torch.utils.rename_privateuse1_backend(runtimes.EXTENSION)
    torch._register_device_module(runtimes.EXTENSION, module)
    backend_registration.generate_methods_for_privateuse1_backend()
    torch.storage._StorageBase.hologram = tensors.storage_to_device
    tensors.make_storages()
    torch._C._acc.register_python_privateuseone_hook(_kept[0])
    torch._C._acc.register_python_privateuseone_device_guard(_kept[1])
    torch.serialization.register_package(19, _tag, _restore)  # before PyTorch's, which asks for an allocator
    library = torch.library.Library("aten", "IMPL")
    tensors.register(library)
    outs.register(library, kernels.register(library))
    draws.register(library)
    library.impl("_pin_memory", lambda self, device=None: self.detach(), "CPU")  # the device's memory is the host's
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(fallback.run, "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    autocast.register(library)
    _try_gradients()
    return [library, everything]


def _tag(storage):
    return "hologram:0" if storage.device.type == runtimes.EXTENSION else None


def _restore(storage, location):
    return tensors.storage_to_device(storage) if location.startswith(runtimes.EXTENSION) else None


def _try_gradients():
    """PyTorch makes its threads for gradients at a process's first backward(), for the devices that it knows by then."""
    x = tensors.on_device(torch.ones(1)).requires_grad_()
    try:
        x.view(1).backward(tensors.on_device(torch.ones(1)))
    except RuntimeError as error:
        counters.log.warning('device "hologram" has no gradients, as backward() ran before hologram_torch.device.use(): %s', error)
