# hologram_torch/memory.py: what compiled graphs hold
import weakref

from . import counters, runtimes

_live = weakref.WeakSet()  # callables of compiled graphs
_released = weakref.WeakKeyDictionary()  # bytes by frozen model


def watch(call, executable, on_host: bool) -> None:
    """Counts a compiled graph's memory for as long as its callable lives. `on_host`: what it keeps is in the host's pool."""
    call.executable, call.on_host = executable, on_host
    _live.add(call)


def tell_released(frozen, bytes: int) -> None:
    """Counts what a frozen model gave back for as long as it lives."""
    _released[frozen] = bytes


def shares() -> dict:
    """Bytes: weights packed for live graphs; other blocks in use (results, calls in progress); what the pool keeps for later;
    weights that live frozen models have given back; machine code in use, and of kernels kept for later; plans of live graphs."""
    pool = runtimes.runtime().memory_stats()
    released = sum(_released.values())
    values = {True: {}, False: {}}  # bytes by address: graphs share what they compute from the same weights
    for call in list(_live):
        values[call.on_host].update(call.executable.cached_values)
    packed = {on_host: sum(found.values()) for on_host, found in values.items()}
    in_use = max(0, pool["in_use"] - packed[True])
    own = {"packed_weights": sum(packed.values()), "in_use": in_use, "pool_cached": pool["cached"], "released_weights": released}
    return own | {share: pool[share] for share in ("code", "code_cached", "plans")}


def give_back(ranges) -> None:
    """Gives freed memory back to the system: what the C library keeps of it, and those of the ranges (address, bytes) that lie in
    a mapped file, which other tensors may hold."""
    runtime, files = runtimes.runtime(), _mapped_files()
    for address, size in ranges:
        if any(begin <= address and address + size <= end for begin, end in files):
            runtime.page_out(address, size)
    runtime.trim_heap()


def _mapped_files() -> list:
    try:
        with open("/proc/self/maps") as file:
            lines = [line.split(maxsplit=5) for line in file]
    except OSError:  # no Linux
        return []
    return [tuple(int(x, 16) for x in f[0].split("-")) for f in lines if len(f) == 6 and f[5].startswith("/")]


counters.tell_memory(shares)
