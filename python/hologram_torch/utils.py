# hologram_torch/utils.py: tensors, buffers and executors of the SDK
"""Helpers between PyTorch's tensors and Hologram's buffers."""

import errno
import os

import torch
from hologram import Buffer, Executor

from .eager import functional
from .eager.buffers import buffer_to_tensor, match_device, tensor_to_buffer, validate_tensor_compatible


def create_executor_for_tensor(tensor):
    """An Executor on the tensor's device."""
    return Executor(match_device(tensor))


def train_step(model, batch, optimizer, loss=None):
    """One step of training: forward, loss, backward, update. `batch` is (inputs, targets); returns the loss as a float."""
    inputs, targets = batch
    optimizer.zero_grad(set_to_none=True)
    value = (loss or functional.mse_loss)(model(inputs), targets)
    value.backward()
    optimizer.step()
    return value.item()


def save(value, path):
    """torch.save whole or not at all: whenever the process or the machine ends, `path` holds this value or the one before."""
    path = os.fsdecode(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a device, as /dev/null, must not make way for a file
        raise FileExistsError(errno.EEXIST, "it is no regular file", path)
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            torch.save(value, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)  # the name too
    finally:
        os.close(folder)


__all__ = ["Buffer", "Executor", "buffer_to_tensor", "create_executor_for_tensor", "match_device", "save", "tensor_to_buffer",
           "train_step", "validate_tensor_compatible"]  # fmt: skip
