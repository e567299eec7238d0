# hologram/limits.py: what this machine's cores and memory give at most, measured once and kept
"""`measured()` tells the peaks of arithmetic and the bandwidth of each level of memory, of all threads at once, and `Limits.least`
what of a kernel's work could be done in no less time. Kept in the cache folder by processor and threads; measuring anew keeps the
larger of each number, as other work on the machine only ever takes away."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from hologram import _core

__all__ = ["Level", "Limits", "measured"]

_ROUNDS = 9
_WAY = 3  # of measuring: what another way found would stay the larger
_NARROW = {"bf16": "bfloat16", "i8": "int8", "u8": "int8", "f64": "float64"}
_kept: dict[str, Limits] = {}  # by key, of this process


@dataclass(frozen=True)
class Level:
    """A level of memory: bytes that it holds for all threads together (the last one: 0), and bytes a second; a copy's are those
    read and those written."""

    name: str
    bytes: int
    read: float
    write: float
    copy: float

    @property
    def most(self) -> float:
        return max(self.read, self.write, self.copy)

    def least(self, bytes: float, written: Optional[float] = None) -> float:
        """The seconds that moving so many bytes takes, `written` of them to memory: as much as is read and written like a copy, the
        rest like reading or writing alone. None: it is not known how many, and all move as fast as anything does."""
        if written is None:
            return bytes / self.most
        read = bytes - written
        return 2 * min(read, written) / self.copy + max(read - written, 0) / self.read + max(written - read, 0) / self.write


@dataclass(frozen=True)
class Limits:
    """operations: a second, by type, a multiply-add being two; a type without instructions of its own is not there. levels: from
    the first cache to memory."""

    processor: str
    threads: int
    operations: dict[str, float]
    levels: tuple[Level, ...]

    def level(self, bytes: float) -> Level:
        """The first level that holds so many bytes."""
        return next((level for level in self.levels if level.bytes >= bytes), self.levels[-1])

    def peak(self, dtype: str = "f32") -> float:
        """Operations a second on operands of a graph's dtype."""
        return self.operations.get(_NARROW.get(dtype, "float32"), self.operations["float32"])

    def least(self, flop: float, bytes: float, dtype: str = "f32", written: Optional[float] = None) -> tuple[float, str]:
        """The seconds that so much arithmetic and traffic take at least, and what binds: "arithmetic" or a level's name. Data lie in
        the first level that holds them; `written`: as in Level.least."""
        level = self.level(bytes)
        compute, move = flop / self.peak(dtype), level.least(bytes, written)
        return (compute, "arithmetic") if compute > move else (move, level.name)

    def rows(self) -> list[tuple[str, str]]:
        """For people: what, and how much."""
        out = [(f"{what} operations", f"{rate / 1e9:,.0f} GFLOP/s") for what, rate in self.operations.items()]
        for level in self.levels:
            size = f" ({level.bytes / 1024:,.0f} KiB)" if level.bytes else ""
            rates = ", ".join(f"{how} {getattr(level, how) / 1e9:,.0f}" for how in ("read", "write", "copy"))
            out.append((level.name + size, f"{rates} GB/s"))
        return out


def measured(threads: Optional[int] = None, again: bool = False) -> Limits:
    """The limits on so many threads (default: those that kernels use), kept or, with `again` or where none are, measured (a
    second). ValueError for a number of threads that no pool has."""
    wanted = _core.shared_runtime("cpu").num_threads if threads is None else threads
    key = f"{_processor()}, {_core.host_cpu()['isa']}, {wanted} threads, way {_WAY}"
    kept = _kept.get(key) or _read().get(key)
    if kept is None or again:
        found = _measure(wanted, _ROUNDS)
        levels = tuple(Level(**level) for level in found["levels"])
        kept = _larger(Limits(_processor(), wanted, found["operations"], levels), kept)
        _write(key, kept)
    _kept[key] = kept
    return kept


def memory_read(threads: int) -> float:
    """Bytes a second that so many threads read from memory just now, nothing kept: where it changes from second to second, what is
    compared with it is measured by turns (a tenth of a second)."""
    return _measure(threads, 1, memory_reads=True)["levels"][-1]["read"]


def _measure(threads: int, rounds: int, **what: bool) -> dict[str, Any]:
    runtime = _core.shared_runtime("cpu")
    before = runtime.num_threads
    try:
        if threads != before:
            runtime.num_threads = threads
        return _core.measure_limits(runtime, rounds, **what)
    finally:
        if threads != before:
            runtime.num_threads = before


def forget() -> None:
    """Removes what is kept."""
    _kept.clear()
    if (path := _path()) is not None:
        path.unlink(missing_ok=True)


def _processor() -> str:
    """The processor's name with the numbers of its design, as several designs share a name."""
    words = {}
    with contextlib.suppress(OSError):
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
        words = dict(line.replace("\t", "").split(": ", 1) for line in first.splitlines() if ": " in line)
    numbers = [words[k] for k in ("cpu family", "model", "stepping", "CPU implementer", "CPU part") if k in words]
    return f"{words.get('model name') or _core.host_cpu()['processor']} ({'-'.join(numbers)})".removesuffix(" ()")


def _larger(new: Limits, old: Optional[Limits]) -> Limits:
    if old is None or [level.name for level in new.levels] != [level.name for level in old.levels]:
        return new
    operations = {name: max(rate, old.operations.get(name, 0.0)) for name, rate in new.operations.items()}
    levels = (
        Level(a.name, a.bytes, max(a.read, b.read), max(a.write, b.write), max(a.copy, b.copy))
        for a, b in zip(new.levels, old.levels)
    )
    return Limits(new.processor, new.threads, operations, tuple(levels))


def _path() -> Optional[Path]:
    info = _core.cache_info()
    return None if info["problem"] or not info["folder"] else Path(info["folder"]) / "limits.json"


def _read() -> dict[str, Limits]:
    """What the file holds; nothing where it cannot be read or is not ours."""
    path = _path()
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path else {}
        return {
            key: Limits(v["processor"], v["threads"], v["operations"], tuple(Level(**level) for level in v["levels"]))
            for key, v in found.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _write(key: str, limits: Limits) -> None:
    path = _path()
    if path is None:
        return
    data = {name: asdict(value) for name, value in (_read() | {key: limits}).items()}
    with contextlib.suppress(OSError):  # measured again by the next process
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, part = tempfile.mkstemp(dir=path.parent, prefix="limits.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
        os.replace(part, path)
