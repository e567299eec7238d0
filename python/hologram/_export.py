# hologram/_export.py: the end of writing an archive
"""What every writer of archives does once methods and tensors are in."""

import contextlib
import math
import os
from typing import Any, Optional, Sequence

from hologram import _core
from hologram.archive import load


def padding_of(padding: Any, names: Sequence[str]) -> dict[str, float]:
    """What an export says inputs may be filled up with, by name; None: nothing. Raises ValueError, TypeError."""
    for name, value in (padding or {}).items():
        if name not in names:
            raise ValueError(f"padding names {name!r}; the inputs are {', '.join(names)}")
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise TypeError(f"padding of {name}: expected a finite number, got {value!r}")
    return dict(padding or {})


HERE = ("here",)  # in place of instruction sets: this process' own kernels, for a file that is trusted by where it is


def finish(writer: Any, path: str, isas: Optional[Sequence[str]], compiled: bool = True) -> tuple[str, dict[str, Any]]:
    """Adds machine code for the instruction sets (None: the usual ones; none named: no code) and lets the file appear.

    This user trusts what they write: it goes on their list. compiled: whether there is machine code at all. → the fingerprint, and
    what the file holds."""
    if isas == HERE:
        writer.precompile_here(_core.shared_runtime(None))
        return writer.finish(), {}
    if compiled and (isas is None or len(isas)):
        writer.precompile(_core.shared_runtime("cpu"), list(isas or ()))
    fingerprint = writer.finish()
    written = load(path, trust=False).info()
    if not compiled or written["targets"]:
        with contextlib.suppress(_core.HologramError, OSError):
            _core.archive_trust(fingerprint, os.path.abspath(path))
    return fingerprint, written
