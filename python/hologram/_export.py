# hologram/_export.py: the end of writing an archive
"""What every writer of archives does once methods and tensors are in."""

import contextlib
import os
from typing import Any, Optional, Sequence

from hologram import _core
from hologram.archive import load


def finish(writer: Any, path: str, isas: Optional[Sequence[str]], compiled: bool = True) -> tuple[str, dict[str, Any]]:
    """Adds machine code for the instruction sets (None: the usual ones; none named: no code) and lets the file appear.

    This user trusts what they write: it goes on their list. compiled: whether there is machine code at all. → the fingerprint, and
    what the file holds."""
    if compiled and (isas is None or len(isas)):
        writer.precompile(_core.shared_runtime("cpu"), list(isas or ()))
    fingerprint = writer.finish()
    written = load(path, trust=False).info()
    if not compiled or written["targets"]:
        with contextlib.suppress(_core.HologramError, OSError):
            _core.archive_trust(fingerprint, os.path.abspath(path))
    return fingerprint, written
