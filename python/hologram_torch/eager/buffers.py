# hologram_torch/eager/buffers.py: tensors and buffers of the SDK
import numpy as np
import torch

from .. import runtimes

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool
)  # fmt: skip

_BACKENDS = {"cpu": "cpu", "cuda": "cuda", "mps": "metal"}


def validate_tensor_compatible(tensor, devices=("cpu",)):
    """Raises TypeError unless it is a tensor of a dtype that buffers have, ValueError unless it is dense and on one of `devices`, by
    default in the host's memory."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.dtype not in DTYPES:
        raise TypeError(f"dtype {tensor.dtype} is not supported here; convert with tensor.float()")
    if tensor.layout != torch.strided:
        raise ValueError(f"a dense tensor is expected, this one is {tensor.layout}; use tensor.to_dense()")
    if tensor.device.type not in devices:
        raise ValueError(f"a tensor on {' or '.join(devices)} is expected, this one is on {tensor.device}; use tensor.cpu()")


def match_device(tensor, backend=None):
    """Name of the backend for the tensor's device, or `backend` if that is given and fits."""
    kind = tensor.device.type
    name = runtimes.chosen(kind) if kind == runtimes.EXTENSION else _BACKENDS.get(kind)
    if name is None:
        raise ValueError(f"no backend runs on {tensor.device}")
    if backend not in (None, "auto", name):
        raise ValueError(f"backend {backend!r} does not run on {tensor.device}; expected {name!r}")
    return name


def as_array(tensor):
    """NumPy's view of a CPU tensor; bfloat16 is ml_dtypes'.

    Raises:
        TypeError: bfloat16 without the package ml_dtypes.
    """
    tensor = tensor.detach()
    return tensor.view(torch.int16).numpy().view(_bfloat16()) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def as_tensor(array):
    """PyTorch's view of a NumPy array or number; bfloat16 is ml_dtypes'."""
    array = np.asarray(array)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _bfloat16():
    try:
        from ml_dtypes import bfloat16
    except ImportError as error:
        raise TypeError("NumPy has no bfloat16: install ml_dtypes, or convert with tensor.float()") from error
    return bfloat16


def tensor_to_buffer(executor, tensor, existing_buffer=None):
    """(buffer, flat tensor). Without `existing_buffer` the buffer shares the memory of the row-major tensor; an existing one
    of the same dtype and size is filled instead."""
    validate_tensor_compatible(tensor)
    flat = tensor.detach().contiguous().reshape(-1)
    array = as_array(flat)
    if existing_buffer is not None and existing_buffer.size == flat.numel() and existing_buffer.dtype == array.dtype:
        existing_buffer.from_numpy(array)
        return existing_buffer, flat
    return executor.wrap(array), flat


def buffer_to_tensor(buffer, shape, device="cpu", requires_grad=False):
    """A tensor of this shape; on the CPU it shares the buffer's memory."""
    tensor = torch.from_dlpack(buffer).reshape(shape).to(device)
    return tensor.requires_grad_(requires_grad)
