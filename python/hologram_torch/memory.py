# hologram_torch/memory.py: what compiled graphs hold, and giving back what only compiling needed
import ctypes
import functools
import mmap
import os
import struct
import sys
import weakref

from hologram import _core

from . import counters, device

_live = weakref.WeakSet()  # callables of compiled graphs
_LOADED, _WRITABLE = 1, 2  # a segment's type, and the flag of one that may be written
_DONT_NEED = 4


def watch(call, executable) -> None:
    """Counts a compiled graph's memory for as long as its callable lives."""
    call.executable = executable
    _live.add(call)


def shares() -> dict:
    """Bytes: weights packed for live graphs; other blocks in use (results, calls in progress); what the pool keeps for later."""
    pool = device.runtime().memory_stats()
    packed = sum(call.executable.cached_bytes for call in list(_live))
    return {"packed_weights": packed, "in_use": max(0, pool["in_use"] - packed), "pool_cached": pool["cached"]}


def drop_code_pages() -> None:
    """Unmaps the native module's read-only pages, of which a compilation has touched 20 MB: those that are used again come
    back from the page cache. Elsewhere than on Linux nothing happens."""
    if sys.platform == "linux":
        for start, size in _read_only():
            _libc().madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _DONT_NEED)


@functools.cache
def _libc():
    return ctypes.CDLL(None)


@functools.cache
def _read_only() -> list:
    """(address, bytes) of whole pages in the module's segments that nothing may write, not even the loader."""
    path = os.path.realpath(_core.__file__)
    with open("/proc/self/maps") as maps:
        lines = [line.split(maxsplit=5) for line in maps]
    starts = [int(line[0].split("-")[0], 16) for line in lines if len(line) == 6 and line[5].strip() == path]
    with open(path, "rb") as file:
        head = file.read(64)
        if not starts or head[:6] != b"\x7fELF\x02\x01":
            return []
        (at,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        file.seek(at)
        table = file.read(size * count)
    out = []
    for n in range(count):
        kind, flags, _, address, _, _, length = struct.unpack_from("<IIQQQQQ", table, n * size)
        first, end = (-(-address // mmap.PAGESIZE), (address + length) // mmap.PAGESIZE)
        if kind == _LOADED and not flags & _WRITABLE and end > first:
            out.append((min(starts) + first * mmap.PAGESIZE, (end - first) * mmap.PAGESIZE))
    return out


counters.tell_memory(shares)
