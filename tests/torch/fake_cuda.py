# tests/torch/fake_cuda.py: tensors in the fake CUDA driver's memory, which native code reads through the table that PyTorch's have
"""A stand-in for PyTorch's CUDA tensors on a machine without a GPU: device pointers, a current stream, memory that is
allocated and freed on that stream. Everything but the tensor itself is what runs on a GPU."""

import contextlib
import ctypes
import os

import torch
from hologram import _core

os.environ.setdefault("HOLOGRAM_CUDA_ASSEMBLER", "driver")  # NVIDIA's machine code is not what the fake driver loads
LIBRARY = os.path.join(os.path.dirname(os.path.realpath(_core.__file__)), "../../tests/libfakecuda.so")
_NAMES = {torch.float32: (2, 32), torch.float64: (2, 64), torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.bool: (6, 8),
          torch.int8: (0, 8), torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64), torch.uint8: (1, 8)}  # fmt: skip
_DTYPES = {code: dtype for dtype, code in _NAMES.items()}


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]  # fmt: skip


class _Managed(ctypes.Structure):
    pass


_Managed._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                     ("deleter", ctypes.PYFUNCTYPE(None, ctypes.POINTER(_Managed))), ("flags", ctypes.c_uint64),
                     ("tensor", _Tensor)]  # fmt: skip

_VIEW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
_ADOPT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Managed), ctypes.POINTER(ctypes.c_void_p))
_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class _Table(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
                ("allocate", ctypes.c_void_p), ("managed_from_object", ctypes.c_void_p), ("object_from_managed", _ADOPT),
                ("view_of_object", _VIEW), ("current_stream", _STREAM)]  # fmt: skip


class DeviceTensor:
    """Sizes and strides over device memory. Owns a block of the driver's, or what native code lent."""

    _version = 0  # as of a tensor that nobody writes in place

    def __init__(self, driver, data, shape, strides, dtype, block=None, managed=None, device_id=0):
        self.driver, self.data, self.dtype = driver, data, dtype
        self.shape, self.strides = tuple(shape), tuple(strides)
        self.block, self.managed, self.device_id = block, managed, device_id
        self.arrays = [(ctypes.c_int64 * max(len(n), 1))(*n) for n in (self.shape, self.strides)]

    def __del__(self):
        if self.block is not None:
            self.driver.give_back(self.block, self.driver.stream_of(self.device_id))
        if self.managed is not None:
            self.managed.contents.deleter(self.managed)

    def cpu(self) -> torch.Tensor:
        """A copy, behind what is on the current stream."""
        out = torch.empty(self._elements(), dtype=self.dtype)
        self.driver.copy(out.data_ptr(), self.data, out.nbytes, self.device_id)
        return out.as_strided(self.shape, self.strides)

    def write(self, values: torch.Tensor):
        """Takes the values of a tensor of the host."""
        flat = torch.empty(self._elements(), dtype=self.dtype)
        flat.as_strided(self.shape, self.strides).copy_(values)
        self.driver.copy(self.data, flat.data_ptr(), flat.nbytes, self.device_id)

    def _elements(self):
        return 0 if 0 in self.shape else 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))


_functions = []  # which compiled graphs may call as long as they live


class Allocator:
    """The C functions of PyTorch's caching allocator: `calls` has what was taken, ("take", bytes, device, stream), and given back,
    ("give", device, stream, launches so far). The first `refused` of the blocks asked for are not given."""

    def __init__(self, driver):
        self.driver, self.current, self.refused = driver, 0, 0
        self.calls, self.live = [], {}
        pointer = ctypes.POINTER(ctypes.c_void_p)
        kinds = (ctypes.c_int32, pointer), (ctypes.c_void_p,), (ctypes.c_uint64, pointer), (ctypes.c_void_p,)
        functions = self._set_device, self._reset_device, self._allocate, self._free
        made = [ctypes.CFUNCTYPE(ctypes.c_int32, *kind)(f) for kind, f in zip(kinds, functions, strict=True)]
        self.addresses = tuple(ctypes.cast(f, ctypes.c_void_p).value for f in made)
        _functions.extend(made)

    def _set_device(self, device, guard):
        guard[0], self.current = self.current + 1, device
        return 0

    def _reset_device(self, guard):
        self.current = guard - 1
        return 0

    def _allocate(self, size, out):
        stream = self.driver.stream_of(self.current)
        if self.refused:
            self.refused -= 1
            return 1
        out[0] = block = self.driver.take(size, self.current)
        self.live[block] = self.current, stream, self.driver.pool is None
        self.calls.append(("take", size, self.current, stream.value))
        return 0

    def _free(self, block):
        device, stream, owned = self.live.pop(block)
        self.calls.append(("give", device, stream.value, self.driver.count("launches")))
        if owned:  # else it is of a capture
            self.driver.give_back(block, stream)
        return 0


class FakeCuda:
    """The driver behind libfakecuda.so, its table, and its allocator."""

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.fakecuda_count.restype = ctypes.c_int64
        self.contexts = [self._context(number) for number in range(2)]
        self.library.cuCtxSetCurrent(self.contexts[1])
        self.second = self._stream()  # the current one of the second device
        self.library.cuCtxSetCurrent(self.contexts[0])
        self.streams = [self._stream() for _ in range(2)]
        self.current = self.streams[0]
        self.table = _Table(1, 3, None, None, None, _ADOPT(self._adopt), _VIEW(self._view), _STREAM(self._tell_stream))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.exchange = new(ctypes.addressof(self.table), b"dlpack_exchange_api", None)
        self.allocator = Allocator(self)
        self.taken, self.pool = 0, None  # blocks of the driver's, ever; what is left of the memory of a capture

    def _context(self, device):
        context = ctypes.c_void_p()
        assert self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        return context

    def current_context(self):
        context = ctypes.c_void_p()
        assert self.library.cuCtxGetCurrent(ctypes.byref(context)) == 0
        return context.value

    def stream_of(self, device_id):
        return self.second if device_id else self.current

    def _stream(self):
        stream = ctypes.c_void_p()
        assert self.library.cuStreamCreate(ctypes.byref(stream), 1) == 0
        return stream

    def count(self, what: str) -> int:
        return self.library.fakecuda_count(what.encode())

    def inject(self, what: str, value: int):
        self.library.fakecuda_inject(what.encode(), ctypes.c_int64(value))

    def wait(self, device_id=0):
        assert self.library.cuStreamSynchronize(self.stream_of(device_id)) == 0

    def copy(self, to, source, size, device_id=0):
        assert size == 0 or self.library.cuMemcpyAsync(
            ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size), self.stream_of(device_id)) == 0  # fmt: skip
        self.wait(device_id)

    @contextlib.contextmanager
    def captured(self):
        """What is put on the current stream inside is recorded: a function that runs it. Memory comes from a block that stays,
        as PyTorch's comes from a pool of the capture: the driver allocates nothing then."""
        block = self.empty([1 << 20], [1], torch.uint8)
        self.pool = range(block.data, block.data + (1 << 20))
        graph = ctypes.c_void_p()
        assert self.library.cuStreamBeginCapture_v2(self.current, 0) == 0
        self.library.fakecuda_replay.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        try:
            yield lambda: (block, self.library.fakecuda_replay(graph, self.current))
        finally:
            assert self.library.cuStreamEndCapture(self.current, ctypes.byref(graph)) == 0
            self.pool = None

    def take(self, size, device_id=0) -> int:
        """A block of memory on the current stream."""
        if self.pool is not None:
            block, self.pool = self.pool.start, self.pool[(size + 255) // 256 * 256 :]
            return block
        block = ctypes.c_uint64()
        assert self.library.cuMemAllocAsync(ctypes.byref(block), ctypes.c_size_t(size), self.stream_of(device_id)) == 0
        self.taken += 1
        return block.value

    def give_back(self, block, stream):
        self.library.cuMemFreeAsync(ctypes.c_uint64(block), stream)

    def pooled(self) -> int:
        """How many blocks others than PyTorch have taken of the driver's pool."""
        return self.count("allocations") - self.taken

    def empty(self, sizes, strides, dtype, device_id=0) -> DeviceTensor:
        out = DeviceTensor(self, 0, sizes, strides, dtype, device_id=device_id)
        out.block = out.data = self.take(out._elements() * dtype.itemsize, device_id)
        if self.pool is not None:
            out.block = None
        return out

    def tensor(self, values: torch.Tensor, device_id=0) -> DeviceTensor:
        out = self.empty(values.shape, values.stride(), values.dtype, device_id)
        out.write(values)
        return out

    def _view(self, tensor, out):
        tensor = getattr(tensor, "there", tensor)
        out[0] = _Tensor(tensor.data, 2, tensor.device_id, len(tensor.shape), *_NAMES[tensor.dtype], 1, *tensor.arrays, 0)
        return 0

    def _adopt(self, managed, out):
        t = managed.contents.tensor
        assert t.device_type == 2
        owned = ctypes.cast(ctypes.addressof(managed.contents), ctypes.POINTER(_Managed))
        tensor = DeviceTensor(self, t.data or 0, t.shape[: t.ndim], t.strides[: t.ndim], _DTYPES[t.code, t.bits], None, owned, t.device_id)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
        out[0] = id(tensor)
        return 0

    def _tell_stream(self, device_type, device_id, out):
        out[0] = self.stream_of(device_id).value
        return 0
