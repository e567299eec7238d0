# hologram_torch/utils.py: tensors, buffers and executors of the SDK
"""Helpers between PyTorch's tensors and Hologram's buffers."""

import torch
from hologram import Buffer, Executor

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool
)  # fmt: skip
_BACKENDS = {"cpu": "cpu", "cuda": "cuda", "mps": "metal"}


def validate_tensor_compatible(tensor):
    """Raises TypeError unless it is a tensor of a dtype that buffers have, ValueError unless it lies in the host's memory."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.dtype not in DTYPES:
        raise TypeError(f"dtype {tensor.dtype} is not supported here; convert with tensor.float()")
    if tensor.layout != torch.strided:
        raise ValueError(f"a dense tensor is expected, this one is {tensor.layout}; use tensor.to_dense()")
    if tensor.device.type != "cpu":
        raise ValueError(f"a CPU tensor is expected, this one is on {tensor.device}; use tensor.cpu()")


def tensor_to_buffer(executor, tensor, existing_buffer=None):
    """(buffer, flat tensor). Without `existing_buffer` the buffer shares the memory of the row-major tensor; an existing one
    of the same dtype and size is filled instead."""
    validate_tensor_compatible(tensor)
    flat = tensor.detach().contiguous().reshape(-1)
    array = flat.numpy()
    if existing_buffer is not None and existing_buffer.size == flat.numel() and existing_buffer.dtype == array.dtype:
        existing_buffer.from_numpy(array)
        return existing_buffer, flat
    return executor.wrap(array), flat


def buffer_to_tensor(buffer, shape, device="cpu", requires_grad=False):
    """A tensor of this shape; on the CPU it shares the buffer's memory."""
    tensor = torch.from_dlpack(buffer).reshape(shape).to(device)
    return tensor.requires_grad_(requires_grad)


def match_device(tensor, backend=None):
    """Name of the backend for the tensor's device, or `backend` if that is given and fits."""
    name = _BACKENDS.get(tensor.device.type)
    if name is None:
        raise ValueError(f"no backend runs on {tensor.device}")
    if backend not in (None, "auto", name):
        raise ValueError(f"backend {backend!r} does not run on {tensor.device}; expected {name!r}")
    return name


def create_executor_for_tensor(tensor):
    """An Executor on the tensor's device."""
    return Executor(match_device(tensor))


def train_step(model, batch, optimizer, loss=None):
    """One step of training: forward, loss, backward, update. `batch` is (inputs, targets); returns the loss as a float."""
    from .eager import functional

    inputs, targets = batch
    optimizer.zero_grad(set_to_none=True)
    value = (loss or functional.mse_loss)(model(inputs), targets)
    value.backward()
    optimizer.step()
    return value.item()


__all__ = ["Buffer", "Executor", "buffer_to_tensor", "create_executor_for_tensor", "match_device", "tensor_to_buffer",
           "train_step", "validate_tensor_compatible"]  # fmt: skip
