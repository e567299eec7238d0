# hologram/_dump.py: stages of compiled graphs as text, where HOLOGRAM_DUMP asks for them
from __future__ import annotations

import itertools
import os
import sys
from typing import Any, Optional

from hologram import _core

_number = itertools.count()


class DumpError(OSError):
    """What HOLOGRAM_DUMP asks for cannot be written."""


def stages() -> set[str]:
    """The stages named by HOLOGRAM_DUMP (fx, graph, plan, atlas, llvm, asm, ptx, sass, wgsl; several joined by commas)."""
    return set(_core.setting("HOLOGRAM_DUMP"))


def folder() -> Optional[str]:
    """HOLOGRAM_DUMP_DIR, which is made if it is not there; None: dumps go to standard error. DumpError where it can't be made."""
    path = _core.setting("HOLOGRAM_DUMP_DIR")
    try:
        os.makedirs(path, exist_ok=True) if path else None
    except OSError as error:
        raise DumpError(f"HOLOGRAM_DUMP_DIR={path}: the folder cannot be made: {error.strerror}") from error
    return path or None


def write(name: str, stage: str, text: str) -> None:
    """One stage of a graph, into HOLOGRAM_DUMP_DIR or to standard error."""
    place = folder()
    if not place:
        sys.stderr.write(f"# hologram {stage} of {name}\n{text}\n")
        return
    path = os.path.join(place, f"{name}.{stage}.txt")
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        raise DumpError(f"HOLOGRAM_DUMP_DIR={place}: {path} cannot be written: {error.strerror}") from error


def compiled(name: str, graph: Any, compile: Any, *arguments: Any, **options: Any) -> Any:
    """_core.compile(graph, …), with the stages before and after it written."""
    wanted = stages()
    if "graph" in wanted:
        write(name, "graph", str(graph))
    executable = compile(graph, *arguments, **options)
    if "plan" in wanted:
        write(name, "plan", executable.plan())
    for stage in sorted(wanted & {"atlas", "llvm", "asm", "ptx", "sass", "wgsl"}):
        try:
            texts = executable.dump(stage)
        except RuntimeError as error:  # machine code is shown by tools that may be missing
            texts = [str(error)]
        for number, text in enumerate(texts):
            write(f"{name}.{number}", stage, text)
    return executable


def numbered(name: str) -> str:
    """A name that no other graph of this process has, for a file."""
    return f"{''.join(c if c.isalnum() else '_' for c in name).strip('_') or 'graph'}_{next(_number)}"
