# hologram/stream.py: work that calls do not wait for
"""Streams and events of executors. `hologram_ffi.executable_run_on_stream` puts compiled graphs on a stream."""

import warnings
from typing import Any, Optional

from hologram import _core
from hologram._core import Buffer, Executor

__all__ = ["Event", "Stream"]

_ffi = _core.ffi


class Event:
    """A mark in a stream's work, for other streams of the executor and for the host."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._handle: int = _ffi.event_create(executor.handle)

    @property
    def handle(self) -> int:
        """Handle for hologram_ffi."""
        return self._handle

    @property
    def reached(self) -> bool:
        """Whether the mark that was recorded last has been reached; without one, True."""
        return bool(_ffi.event_query(self._handle))

    def synchronize(self) -> None:
        """Returns when the mark has been reached."""
        _ffi.event_synchronize(self._handle)

    def __del__(self) -> None:
        _clean(_ffi.event_cleanup, getattr(self, "_handle", 0))


class Stream:
    """A queue of work on an executor's device: done in order, beside other streams' work. On executors in host memory the
    work is done at once.

    Args:
        executor: whose buffers and graphs it works on.
        native: another library's stream on the device (a CUstream as a number), which must live as long.
    """

    def __init__(self, executor: Executor, native: Optional[int] = None) -> None:
        self._executor = executor
        self._targets: list[Any] = []  # memory that copies will write
        handle = executor.handle
        self._handle: int = _ffi.stream_create(handle) if native is None else _ffi.stream_from_native(handle, native)

    @property
    def handle(self) -> int:
        """Handle for hologram_ffi."""
        return self._handle

    @property
    def native(self) -> int:
        """The device's own name for it, a CUstream as a number; 0 on the host."""
        return int(_ffi.stream_native(self._handle))

    @property
    def done(self) -> bool:
        """Whether its work is done."""
        return bool(_ffi.stream_query(self._handle))

    def write(self, buffer: Buffer, array: Any) -> None:
        """Copies an array's bytes into the buffer, behind what is on the stream. The array may change at once."""
        _ffi.stream_copy_from_bytes(self._handle, buffer.handle, array)

    def read(self, buffer: Buffer, array: Any) -> None:
        """Copies the buffer into a writable row-major array, which holds it when the stream has been waited for."""
        if not (array.flags.c_contiguous and array.flags.writeable):
            raise ValueError("Stream.read: the array must be row-major and writable")
        _ffi.stream_copy_to_bytes(self._handle, buffer.handle, array.ctypes.data, array.nbytes)
        self._targets.append(array)

    def record(self, event: Event) -> None:
        """Marks the end of what is on the stream now."""
        _ffi.event_record(event.handle, self._handle)

    def wait_for(self, event: Event) -> None:
        """What is put on the stream from now on begins behind the event's mark."""
        _ffi.stream_wait_event(self._handle, event.handle)

    def synchronize(self) -> None:
        """Returns when its work is done. Raises the first error since it was last called."""
        try:
            _ffi.stream_synchronize(self._handle)
        finally:
            self._targets.clear()

    def __del__(self) -> None:
        _clean(_ffi.stream_cleanup, getattr(self, "_handle", 0))


def _clean(cleanup: Any, handle: int) -> None:
    if handle:
        with warnings.catch_warnings():  # the executor may have taken it along
            warnings.simplefilter("ignore")
            cleanup(handle)
