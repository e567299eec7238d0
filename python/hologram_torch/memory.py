# hologram_torch/memory.py: what compiled graphs hold
import weakref

from . import counters, device

_live = weakref.WeakSet()  # callables of compiled graphs


def watch(call, executable) -> None:
    """Counts a compiled graph's memory for as long as its callable lives."""
    call.executable = executable
    _live.add(call)


def shares() -> dict:
    """Bytes: weights packed for live graphs; other blocks in use (results, calls in progress); what the pool keeps for later."""
    pool = device.runtime().memory_stats()
    packed = sum(call.executable.cached_bytes for call in list(_live))
    return {"packed_weights": packed, "in_use": max(0, pool["in_use"] - packed), "pool_cached": pool["cached"]}


counters.tell_memory(shares)
