# hologram/_core.pyi: types of the native module's public part; written by tools/stubs.py
"""Native part of the hologram package. Only what the package re-exports is typed; the rest is internal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

from numpy.typing import NDArray
from typing_extensions import Self

if TYPE_CHECKING:
    from hologram.backend import BackendType

class _Named(Protocol):
    @property
    def name(self) -> str: ...

DTypeLike = Union[str, type[Any], _Named, None]

__version__: str
buffer_ops: Any
ffi: Any
sigmatics: Any
atlas: Any

class HologramError(RuntimeError): ...

def version() -> str: ...
def op_table() -> list[dict[str, Any]]: ...
def numpy_dtype(dtype: DTypeLike) -> Any: ...
def memory_at(address: int, bytes: int, owner: object) -> memoryview: ...
def __getattr__(name: str) -> Any: ...

class Executor:
    """
    Memory and kernels of one backend.

    An executor owns a boundary pool (96 classes of 12,288 bytes, contiguous and cache-resident), a
    bounded linear pool for larger buffers, and the kernels. It may be used from several threads; calls
    on different buffers run side by side.

    As a context manager it frees itself and its buffers at the end of the block.

    Args:
        backend: "auto", "cpu", "cuda", "cuda:1" for the second device, "metal" or a BackendType.

    Raises:
        ValueError: the name is unknown.
        HologramError: the backend is absent from this machine or build.
    """

    def __init__(self, backend: str | BackendType = 'auto') -> None: ...

    @property
    def handle(self) -> int:
        """Handle for hologram_ffi. HologramError once cleaned up."""

    @property
    def backend(self) -> str:
        """Name of the backend that was chosen. HologramError once cleaned up."""

    def allocate(self, size: int, dtype: DTypeLike = None, *, zero: bool = True, linear: bool = False) -> Buffer:
        """
        A buffer of `size` elements, float32 unless `dtype` says otherwise.

        It takes a free class of the boundary pool if it fits in 12,288 bytes and `linear` is False, else
        linear memory. Its elements are 0 unless `zero` is False.

        Raises:
            ValueError: size < 1.
            NotImplementedError: a dtype that is none of Hologram's.
            MemoryError: the memory limit or the system refuses; nothing was changed.
        """

    def allocate_boundary(self, class_index: int, width: int, height: int, dtype: DTypeLike = None) -> Buffer:
        """
        A zeroed buffer in boundary class 0…95: `width` pages (1…48) of `height` bytes (1…256).

        It has width * height / itemsize elements.

        Raises:
            ValueError: a number out of range.
            HologramError: the class is taken.
        """

    def from_numpy(self, array: NDArray[Any]) -> Buffer:
        """
        A new buffer with a copy of the array's elements in row-major order, of its dtype.
        """

    def wrap(self, array: NDArray[Any]) -> Buffer:
        """
        A buffer over the array's own memory, which it keeps alive.

        Arrays that are read-only, misaligned or not row-major are copied; `Buffer.copied` tells.
        """

    def synchronize(self) -> None:
        """Returns when everything that was started is done."""

    def stats(self) -> dict[str, int]:
        """
        Counters: buffers, boundary and linear memory, kernels, bytes copied each way, bytes of machine code and plans.
        """

    def set_memory_limit(self, bytes: int) -> None:
        """
        Bounds the live linear memory; allocations beyond it are a MemoryError.
        """

    def trim(self) -> int:
        """Gives cached linear memory back to the system; returns the bytes."""

    @property
    def free_classes(self) -> int:
        """How many of the 96 boundary classes are free."""

    def boundary_pointer(self, class_index: int, page: int, byte: int) -> int:
        """Address of a byte of the boundary pool by its coordinates."""

    def boundary_address(self, pointer: int) -> tuple[int, int, int]:
        """The inverse: (class, page, byte). HologramError outside the pool."""

    def cleanup(self) -> None:
        """
        Frees the executor and all its buffers; idempotent. Exported views stay valid.
        """

    @property
    def closed(self) -> bool: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def __repr__(self) -> str: ...

class Buffer:
    """
    A one-dimensional array of an executor, made by Executor.allocate and its like.

    It shares its memory with NumPy (`to_numpy(copy=False)`, `numpy.asarray(buffer)`), with Python
    (`memoryview(buffer)`) and with whatever speaks DLPack (`torch.from_dlpack(buffer)`). Views keep the
    memory alive after free() and after the executor's end. Using a freed buffer raises HologramError.
    """

    @property
    def handle(self) -> int:
        """Handle for hologram_ffi."""

    @property
    def executor(self) -> Executor:
        """The executor it belongs to."""

    @property
    def size(self) -> int:
        """Elements."""

    @property
    def dtype(self) -> Any:
        """NumPy's dtype (that of ml_dtypes for bfloat16)."""

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""

    @property
    def pool(self) -> str:
        """"boundary", "linear" or, for wrapped memory, "foreign"."""

    @property
    def class_index(self) -> int | None:
        """Boundary class 0…95, None outside that pool."""

    @property
    def copied(self) -> bool:
        """Whether wrap() or from_dlpack() had to copy."""

    @property
    def freed(self) -> bool:
        """Whether the buffer or its executor was freed."""

    @property
    def ptr(self) -> int:
        """Address of the first element."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any) -> Any:
        """An element, or for a slice with step 1 a Buffer over the same memory."""

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def from_numpy(self, array: NDArray[Any]) -> None:
        """
        Copies the elements of an array of any shape, in row-major order.

        Raises:
            TypeError: not an ndarray.
            ValueError: another dtype or number of elements.
            HologramError: the buffer was freed.
        """

    def to_numpy(self, copy: bool = True) -> NDArray[Any]:
        """
        A one-dimensional array: a copy, or with copy=False a view of the same memory.
        """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...

    def from_bytes(self, data: bytes | bytearray | memoryview | NDArray[Any]) -> None:
        """
        Copies exactly nbytes bytes from whatever has contiguous bytes. ValueError otherwise.
        """

    def to_bytes(self) -> bytes:
        """The elements' bytes."""

    def fill(self, value: float | int | bool) -> None:
        """Sets every element."""

    def copy_from(self, other: Buffer) -> None:
        """
        Copies another buffer of the same dtype and size; it may belong to another executor.
        """

    def slice(self, offset: int, length: int) -> Buffer:
        """A buffer over `length` elements from `offset` on, in the same memory."""

    def resize(self, size: int) -> None:
        """
        Changes the size; elements that stay keep their values, new ones are 0. BufferError while a view or slice exists.
        """

    def canonicalize(self) -> None:
        """Clears bit 0 of every byte."""

    def is_canonical(self) -> bool:
        """Whether bit 0 of every byte is clear."""

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """
        A DLPack capsule that shares the memory. BufferError for another device than its own, and for a stream of the host's memory; of a device's, all work on it is done.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and number; (1, 0) is the host."""

    def free(self) -> None:
        """Frees the buffer; idempotent. Views keep the memory alive."""

    def __repr__(self) -> str: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...
