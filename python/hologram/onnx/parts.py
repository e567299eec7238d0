# hologram/onnx/parts.py: large parts of a file, read by a thread of their own
# mypy: ignore-errors
"""Where a model's weights lie in its file is known long before their values are asked for: until then the modules that lower operators
are imported, and the nodes bound. One call of the system reads many parts, at the speed of memory and without Python's lock."""

import os
import threading

import numpy as np

GAP = 1 << 16  # bytes: what lies between two parts of one call is read too, if it is no more
MOST = 500, 1 << 30  # parts and bytes of one call


SMALL = 4096  # bytes: smaller parts are there at once


class Parts:
    """A file while it is read: whoever writes into it later changes nothing."""

    def __init__(self, file, view):
        self._file, self._begin = file, _address(view)
        self._bytes, self._room, self._at = len(view) + len(view) // SMALL * 64 + 64, None, 0
        self._parts, self._reading, self._error = [], None, None

    def place(self, raw):
        """Where the bytes of a part of the view are after finish(), at a multiple of 64: all in one array, which large pages make quick
        to fill."""
        if len(raw) < SMALL:
            return np.frombuffer(bytes(raw), np.uint8)
        if self._room is None:
            self._room = np.empty(self._bytes, np.uint8)
            self._at = -_address(self._room) % 64
        place = self._room[self._at : self._at + len(raw)]
        self._at += (len(raw) + 63) // 64 * 64
        if self._parts is None:
            place[:] = np.frombuffer(raw, np.uint8)
        else:
            self._parts.append((_address(raw) - self._begin, memoryview(place)))
        place.setflags(write=False)
        return place

    def start(self):
        """Begins to read what has places; later ones are filled at once."""
        parts, self._parts = self._parts, None
        if not parts:
            return
        given = os.dup(self._file.fileno()), parts
        reading = threading.Thread(target=self._read, args=given, name="hologram.onnx.parts")
        try:
            reading.start()
            self._reading = reading
        except RuntimeError:  # no more threads, or the process ends
            self._read(*given)

    def _read(self, file, parts):
        try:
            for offset, buffers in _calls(sorted(parts, key=lambda part: part[0])):
                _read_all(file, offset, buffers)
        except Exception as error:  # finish() has it
            self._error = error
        finally:
            os.close(file)

    def finish(self):
        """Waits until all parts are there. OSError: they could not be read."""
        if self._reading is not None:
            self._reading.join()
        if self._error is not None:
            raise self._error


def _address(data):
    return np.frombuffer(data, np.uint8).__array_interface__["data"][0]


def _calls(parts):
    """(where it begins, buffers) of each call."""
    end, size, buffers = None, 0, []
    for offset, place in parts:
        if buffers and (not 0 <= offset - end <= GAP or len(buffers) > MOST[0] or size > MOST[1]):
            yield begin, buffers
            size, buffers = 0, []
        if not buffers:
            begin = end = offset
        if offset > end:
            buffers.append(memoryview(bytearray(offset - end)))
        buffers.append(place)
        size += offset - end + len(place)
        end = offset + len(place)
    if buffers:
        yield begin, buffers


def _read_all(file, offset, buffers):
    while buffers:
        count = os.preadv(file, buffers, offset)
        if count <= 0:
            raise OSError("from_onnx: the file became shorter while it was read")
        offset += count
        while buffers and count >= len(buffers[0]):
            count -= len(buffers.pop(0))
        if count:
            buffers[0] = buffers[0][count:]
