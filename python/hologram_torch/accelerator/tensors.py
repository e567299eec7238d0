# hologram_torch/accelerator/tensors.py: memory and views of tensors on device="hologram"
"""A tensor of the device is an ordinary tensor of PyTorch's PrivateUse1 whose storage lies in the memory of a runtime that the
host sees. Through DLPack it comes into being, and the host's operators get tensors over the same memory."""

import torch
from hologram import _core
from torch._prims_common import suggest_memory_format

from .. import runtimes

aten = torch.ops.aten
EXTERNAL, HOST = 12, 1  # DLPack's types: an extension's device, the host
_EXCHANGE = torch.Tensor.__dlpack_c_exchange_api__
_HOSTS_KERNELS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_CODES = {  # DLPack's code and bits
    torch.bool: (6, 8), torch.bfloat16: (4, 16),
    torch.float16: (2, 16), torch.float32: (2, 32), torch.float64: (2, 64),
    torch.complex32: (5, 32), torch.complex64: (5, 64), torch.complex128: (5, 128),
    torch.int8: (0, 8), torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64),
    torch.uint8: (1, 8), torch.uint16: (1, 16), torch.uint32: (1, 32), torch.uint64: (1, 64),
}  # fmt: skip


def is_ours(x) -> bool:
    return isinstance(x, torch.Tensor) and x.device.type == runtimes.EXTENSION


def among(arguments):
    """The tensors among arguments and in lists of them."""
    for x in arguments:
        if isinstance(x, torch.Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from among(x)


def on_host(tensor, storages=None):
    """The host's tensor over the memory of one of the device's. `storages`: the host's by address of the device's, for tensors that are
    to share theirs."""
    if storages is None:
        plain = _core.retyped(tensor, _EXCHANGE, HOST)  # without the bits that say how its numbers are to be read
    else:
        plain = torch.empty(0, dtype=tensor.dtype).set_(_storage(tensor, storages), tensor.storage_offset(), tensor.shape, tensor.stride())
    plain = plain.conj() if tensor.is_conj() else plain
    return torch._neg_view(plain) if tensor.is_neg() else plain


def _storage(tensor, storages):
    mine = tensor.untyped_storage()
    if mine.data_ptr() not in storages:
        whole = aten.set_.source_Storage(empty([0], dtype=torch.uint8), mine)
        storages[mine.data_ptr()] = _core.retyped(whole, _EXCHANGE, HOST).untyped_storage()
    return storages[mine.data_ptr()]


def on_device(tensor):
    """The device's tensor over the memory of one of the host's."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise NotImplementedError(f"device 'hologram' has dense tensors alone, no {tensor.layout}")
    if tensor._is_zerotensor() or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.clone().resolve_conj().resolve_neg()
    if tensor.dtype not in _CODES:  # DLPack may know the bytes alone
        return _core.retyped(tensor.view(torch.uint8), _EXCHANGE, EXTERNAL).view(tensor.dtype)
    return _core.retyped(tensor, _EXCHANGE, EXTERNAL)


def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    """aten::empty_strided"""
    dtype = dtype or torch.get_default_dtype()
    code = _CODES.get(dtype)
    if code is None or layout not in (None, torch.strided) or len(size) != len(stride) or any(n < 0 for n in (*size, *stride)):
        return on_device(torch.empty_strided(size, stride, dtype=dtype, layout=layout))
    return _core.pool_tensor(runtime(), _EXCHANGE, code, list(size), list(stride), EXTERNAL)


def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """aten::empty.memory_format"""
    dtype = dtype or torch.get_default_dtype()
    if layout not in (None, torch.strided):
        raise NotImplementedError(f"device 'hologram' has dense tensors alone, no {layout}")
    if memory_format in (None, torch.contiguous_format) and all(n >= 0 for n in size):
        strides, step = [1] * len(size), 1
        for axis in range(len(size) - 1, -1, -1):
            strides[axis] = step
            step *= max(size[axis], 1)
        return empty_strided(size, strides, dtype=dtype)
    meta = torch.empty(size, dtype=dtype, memory_format=memory_format, device="meta")  # raises what eager does
    return empty_strided(meta.shape, meta.stride(), dtype=dtype)


def runtime():
    return runtimes.runtime(runtimes.EXTENSION)


def adopt(tensor, other):
    """Gives a tensor of the device the memory, sizes and strides of another one, as resizing does."""
    aten.set_.source_Storage_storage_offset(tensor, other.untyped_storage(), other.storage_offset(), other.shape, other.stride())
    return tensor


def resize(self, size, *, memory_format=None):
    """aten::resize_, which finds new memory where the old is too small; other tensors keep the old."""
    fits = 1
    for n in size:
        fits *= n
    storage = self.untyped_storage()
    if (fits + self.storage_offset()) * self.element_size() > storage.nbytes():
        larger = empty([fits + self.storage_offset()], dtype=self.dtype)
        kept = storage.nbytes() // self.element_size()
        if kept:
            whole = aten.as_strided(self, [kept], [1], 0)
            on_host(larger)[:kept].copy_(on_host(whole))
        strides = torch.empty(size, dtype=self.dtype, device="meta", memory_format=memory_format or torch.contiguous_format).stride()
        aten.set_.source_Storage_storage_offset(self, larger.untyped_storage(), self.storage_offset(), size, strides)
        return self
    return aten.resize_.default.redispatch(_HOSTS_KERNELS, self, size, memory_format=memory_format)


def resize_as(self, template, *, memory_format=None):
    """aten::resize_as_"""
    if memory_format == torch.preserve_format:
        memory_format = suggest_memory_format(template)
    return aten.resize_.default(self, template.shape, memory_format=memory_format)


def copy_from(self, dst, non_blocking=False):
    """Between the device and the host, or on the device, by PyTorch's kernel for the host."""
    source, target = (on_host(t) if is_ours(t) else t for t in (self, dst))
    target.copy_(source)
    return dst


def copy_from_and_resize(self, dst):
    """aten::_copy_from_and_resize"""
    if dst.shape != self.shape:
        aten.resize_.default(dst, self.shape)
    return copy_from(self, dst)


def item(self):
    """aten::_local_scalar_dense"""
    return on_host(self).item()


def storage_to_device(storage, device=None, non_blocking=False):
    """The storage in the device's memory."""
    if storage.device.type == "hologram":
        return storage
    target = empty([storage.nbytes()], dtype=torch.uint8)
    source = torch.empty(0, dtype=torch.uint8).set_(getattr(storage, "_untyped_storage", storage))
    copy_from(source, target)
    return target.untyped_storage()


def make_storages():
    """Has storages of the device be made here: PyTorch would ask an allocator in C++, which there is not, and end the process."""
    plain = torch.UntypedStorage.__new__

    def make(cls, *args, device=None, **kwargs):
        if device is None:
            return plain(cls, *args, **kwargs)
        if torch.device(device).type != "hologram":
            return plain(cls, *args, device=device, **kwargs)
        if args and not isinstance(args[0], int):
            return storage_to_device(plain(cls, *args, **kwargs))
        return empty([args[0] if args else 0], dtype=torch.uint8).untyped_storage()

    torch.UntypedStorage.__new__ = make


# Kernels that look at nothing but sizes, strides and storages: the host's serve as they are.
METADATA = (
    "as_strided", "view", "_reshape_alias", "unfold", "view.dtype", "view_as_real", "view_as_complex", "set_.source_Storage_storage_offset",
    "set_.source_Storage", "set_.source_Tensor", "is_set_to", "_unsafe_view", "alias",
)  # fmt: skip


def overload(name):
    packet, _, part = name.partition(".")
    return getattr(getattr(aten, packet), part or "default")


def register(library):
    """Registers what tensors need before they compute."""

    def metadata(op):
        return lambda *args, **kwargs: op.redispatch(_HOSTS_KERNELS, *args, **kwargs)

    for name in METADATA:
        library.impl(name, metadata(overload(name)), "PrivateUse1")
    mine = {
        "empty.memory_format": empty, "empty_strided": empty_strided, "resize_": resize, "resize_as_": resize_as,
        "_copy_from_and_resize": copy_from_and_resize, "_local_scalar_dense": item,
        "set_": lambda self: adopt(self, empty([0], dtype=self.dtype)),
    }  # fmt: skip
    for name, function in mine.items():
        library.impl(name, function, "PrivateUse1")
    for key in ("Conjugate", "Negative"):  # resolving the bits is a copy itself
        library.impl("_copy_from", torch.library.fallthrough_kernel, key)
