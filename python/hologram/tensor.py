# hologram/tensor.py: strided views of an executor's memory
# mypy: disable-error-code="no-any-return,return-value"
"""Tensors: a buffer seen with a shape and strides."""

import functools
import json
from typing import Any, Optional, Sequence

from hologram import _core
from hologram._core import Buffer, Executor

ffi = _core.ffi

__all__ = ["Tensor", "default_executor", "from_dlpack"]


@functools.lru_cache(maxsize=None)
def default_executor() -> Executor:
    """One executor on the best backend, made at the first call and shared."""
    return Executor()


class Tensor:
    """A strided view of a buffer. It keeps the memory alive.

    Views (`transpose`, `permute`, `select`, `narrow`, `slice`, `broadcast_to`, and `reshape` of row-major tensors) share the
    memory; other results own theirs. Shapes and strides count elements.

    Raises:
        ValueError: shapes, dimensions or indices that do not fit.
        HologramError: the executor was cleaned up.
    """

    __slots__ = ("__weakref__", "_copied", "_handle", "executor")

    def __init__(
        self, buffer: Buffer, shape: Sequence[int], strides: Optional[Sequence[int]] = None, offset: int = 0
    ) -> None:
        """A view of `buffer`: row-major unless `strides` says otherwise, from element `offset` on."""
        self._handle = 0
        self.executor = buffer.executor
        self._copied = False
        self._handle = ffi.tensor_create(buffer.handle, list(shape), None if strides is None else list(strides), offset)

    @classmethod
    def _of(cls, executor: Executor, handle: int, copied: bool = False) -> "Tensor":
        self = cls.__new__(cls)
        self._handle, self.executor, self._copied = handle, executor, copied
        return self

    def __del__(self) -> None:
        if getattr(self, "_handle", 0) and not self.executor.closed:
            ffi.tensor_cleanup(self._handle)

    @property
    def handle(self) -> int:
        """Handle for hologram_ffi."""
        return self._handle

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(ffi.tensor_dimensions(self._handle)[0])

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index to the next, by dimension."""
        return tuple(ffi.tensor_dimensions(self._handle)[1])

    @property
    def dtype(self) -> Any:
        """NumPy's dtype (that of ml_dtypes for bfloat16)."""
        return _core.numpy_dtype(ffi.tensor_dtype(self._handle))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return ffi.tensor_numel_u64(self._handle)

    def numel(self) -> int:
        """Number of elements."""
        return self.size

    @property
    def offset(self) -> int:
        """First element within the buffer."""
        return ffi.tensor_offset_u64(self._handle)

    @property
    def ptr(self) -> int:
        """Address of the first element."""
        return ffi.tensor_data(self._handle)

    @property
    def copied(self) -> bool:
        """Whether from_dlpack() had to copy."""
        return self._copied

    def is_contiguous(self) -> bool:
        """Whether the elements are dense in row-major order."""
        return bool(ffi.tensor_is_contiguous(self._handle))

    def _view(self, handle: int) -> "Tensor":
        return Tensor._of(self.executor, handle)

    def contiguous(self) -> "Tensor":
        """The same elements in row-major order; a view if they are already."""
        return self._view(ffi.tensor_contiguous(self.executor.handle, self._handle))

    def transpose(self) -> "Tensor":
        """A matrix with its dimensions exchanged."""
        return self._view(ffi.tensor_transpose(self._handle))

    @property
    def T(self) -> "Tensor":
        return self.permute(tuple(reversed(range(self.ndim))))

    def reshape(self, shape: Sequence[int]) -> "Tensor":
        """Another shape of as many elements; one dimension may be -1."""
        sizes = [int(n) for n in shape]
        if sizes.count(-1) == 1:
            rest = 1
            for n in sizes:
                rest *= n if n != -1 else 1
            if rest == 0 or self.size % rest:
                raise ValueError(f"Tensor.reshape: {self.size} elements do not go into {tuple(shape)}")
            sizes[sizes.index(-1)] = self.size // rest
        return self._view(ffi.tensor_reshape(self.executor.handle, self._handle, json.dumps(sizes)))

    def permute(self, dims: Sequence[int]) -> "Tensor":
        """Dimension i of the result is dims[i] of this one."""
        return self._view(ffi.tensor_permute(self._handle, json.dumps([int(d) for d in dims])))

    def view_1d(self) -> "Tensor":
        """Flattened; the tensor must be contiguous."""
        return self._view(ffi.tensor_view_1d(self._handle))

    def select(self, dim: int, index: int) -> "Tensor":
        """One index of a dimension, which goes."""
        return self._view(ffi.tensor_select(self._handle, dim, index))

    def narrow(self, dim: int, start: int, length: int) -> "Tensor":
        """Indices start … start + length - 1 of a dimension."""
        return self._view(ffi.tensor_narrow(self._handle, dim, start, length))

    def slice(self, dim: int, start: int = -1, end: int = -1, step: int = -1) -> "Tensor":
        """Every `step`-th index from `start` below `end`; a negative number stands for "left out"."""
        return self._view(ffi.tensor_slice(self._handle, dim, start, end, step))

    def broadcast_to(self, shape: Sequence[int]) -> "Tensor":
        """Seen with a larger shape by NumPy's rule."""
        return self._view(ffi.tensor_broadcast_to(self._handle, json.dumps([int(n) for n in shape])))

    def matmul(self, other: "Tensor") -> "Tensor":
        """Product of two matrices of one float dtype."""
        return self._view(ffi.tensor_matmul(self.executor.handle, self._handle, other._handle))

    __matmul__ = matmul

    def numpy(self, copy: bool = False) -> Any:
        """A NumPy array over the same memory, or a copy. BufferError for a device's memory unless `copy`."""
        import numpy

        if not self._on_host():
            if not copy:
                raise BufferError("Tensor.numpy: the memory is a device's; only copy=True sees it")
            elements = numpy.frombuffer(ffi.tensor_to_bytes(self.executor.handle, self._handle), self.dtype)
            return elements.reshape(self.shape).copy()
        # NumPy 1 makes every array from DLPack read-only, and no NumPy knows bfloat16 there.
        known = self.dtype.kind in "biuf" and int(numpy.__version__.split(".")[0]) >= 2
        array = numpy.from_dlpack(self) if known else self._over_memory()
        return array.copy() if copy else array

    def _over_memory(self) -> Any:
        import numpy

        size = self.dtype.itemsize
        steps = [s * size for s in self.strides]
        last = sum((n - 1) * step for n, step in zip(self.shape, steps))
        owner = _core.dlpack_capsule(self.executor.handle, self._handle, False)  # keeps the memory
        raw = _core.memory_at(self.ptr, last + size, owner) if self.size else b""
        return numpy.ndarray(self.shape, self.dtype, raw, strides=steps)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        array = self.numpy(copy=not self._on_host() if copy is None else copy)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"Tensor.__dlpack__: the memory is that of device {self.__dlpack_device__()}")
        if stream is not None and self._on_host():
            raise BufferError("Tensor.__dlpack__: stream must be None: the host's memory has no streams")
        source = self
        if copy:
            fresh = self.executor.allocate(max(1, self.size), self.dtype)
            _core.copy_tensor(self._handle, fresh[: self.size])
            source = Tensor(fresh, self.shape)
        versioned = max_version is not None and max_version[0] >= 1
        return _core.dlpack_capsule(self.executor.handle, source._handle, versioned)

    def _on_host(self) -> bool:
        return self.__dlpack_device__()[0] == 1

    def __dlpack_device__(self) -> tuple[int, int]:
        handle = self.executor.handle
        return (ffi.tensor_dlpack_device_type(handle), ffi.tensor_dlpack_device_id(handle))

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of a tensor without dimensions")
        return shape[0]

    def __repr__(self) -> str:
        if self.executor.closed:
            return "<hologram.Tensor of a cleaned-up Executor>"
        layout = "row-major" if self.is_contiguous() else f"strides {self.strides}"
        return f"<hologram.Tensor {ffi.tensor_dtype(self._handle)}{list(self.shape)}, {layout}>"


def from_dlpack(source: Any, executor: Optional[Executor] = None) -> Tensor:
    """A tensor over the memory of any object that speaks DLPack (NumPy, PyTorch, JAX, a Buffer …).

    Memory of the host or of the executor's own device is shared and kept alive where it is aligned to its element; read-only
    or misaligned memory, negative strides and, for an executor on a device, the host's memory are copied, as `Tensor.copied`
    tells.

    Raises:
        TypeError: the object has no __dlpack__.
        NotImplementedError: a dtype or device that is not supported.
    """
    if not hasattr(source, "__dlpack__"):
        raise TypeError(f"from_dlpack: {type(source).__name__} has no __dlpack__")
    executor = executor or default_executor()
    try:
        capsule = source.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before DLPack 1.0
        writable = getattr(getattr(source, "flags", None), "writeable", True)
        if not writable:  # NumPy 1 does not export such arrays
            source = source.copy()
        handle, copied = _core.dlpack_consume(executor.handle, source.__dlpack__())
        return Tensor._of(executor, handle, copied or not writable)
    handle, copied = _core.dlpack_consume(executor.handle, capsule)
    return Tensor._of(executor, handle, copied)
