# hologram_torch/dlpack.py: tensors by handles, exchanged through DLPack
"""`HologramTensor`: a view of a buffer that is named by its handle."""

from hologram import _core

ffi = _core.ffi


class HologramTensor:
    """A row-major view of a buffer, both given by their handles. It shares memory with what it is made from and given to."""

    def __init__(self, executor_handle, buffer_handle, shape):
        self._handle = 0
        self.executor_handle = executor_handle
        self.buffer_handle = buffer_handle
        self._handle = ffi.tensor_create(buffer_handle, list(shape))

    @classmethod
    def _of(cls, executor_handle, handle):
        self = cls.__new__(cls)
        self.executor_handle, self.buffer_handle, self._handle = executor_handle, None, handle
        return self

    @classmethod
    def from_dlpack(cls, executor_handle, source):
        """Over the memory of anything with __dlpack__; copied only where it is read-only or misaligned."""
        try:
            capsule = source.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = source.__dlpack__()
        return cls._of(executor_handle, _core.dlpack_consume(executor_handle, capsule)[0])

    def __del__(self):
        if self._handle:
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the executor may be gone, and this with it
                ffi.tensor_cleanup(self._handle)

    @property
    def shape(self):
        return tuple(ffi.tensor_dimensions(self._handle)[0])

    @property
    def ndim(self):
        return ffi.tensor_ndim(self._handle)

    @property
    def data_ptr(self):
        return ffi.tensor_data(self._handle)

    def numel(self):
        return ffi.tensor_numel_u64(self._handle)

    def is_contiguous(self):
        return bool(ffi.tensor_is_contiguous(self._handle))

    def contiguous(self):
        return self._of(self.executor_handle, ffi.tensor_contiguous(self.executor_handle, self._handle))

    def device_info(self):
        """(DLPack device type, device number)."""
        return self.__dlpack_device__()

    def __dlpack__(self, stream=None, *, max_version=None, dl_device=None, copy=None):
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"HologramTensor.__dlpack__: the memory is that of device {self.__dlpack_device__()}")
        if stream is not None:
            raise BufferError("HologramTensor.__dlpack__: stream must be None: the host's memory has no streams")
        versioned = max_version is not None and max_version[0] >= 1
        source = self if not copy else self._copied()
        return _core.dlpack_capsule(self.executor_handle, source._handle, versioned)

    def _copied(self):
        name = ffi.tensor_dtype(self._handle)
        buffer = ffi.executor_allocate(self.executor_handle, name, max(1, self.numel()), 0)
        dense = self.contiguous()
        view = ffi.tensor_buffer(dense._handle)
        ffi.buffer_copy_u64(self.executor_handle, view, buffer, self.numel())
        copy = HologramTensor(self.executor_handle, buffer, self.shape)
        ffi.buffer_cleanup(buffer)
        return copy

    def __dlpack_device__(self):
        handle = self.executor_handle
        return (ffi.tensor_dlpack_device_type(handle), ffi.tensor_dlpack_device_id(handle))

    def __repr__(self):
        return f"<HologramTensor {ffi.tensor_dtype(self._handle)}{list(self.shape)}>"
