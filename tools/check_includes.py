#!/usr/bin/env python3
# tools/check_includes.py: fails when a folder of src/ includes from a folder below it
"""Includes under src/ point one way.

A folder may include from itself and from the folders above it in ORDER. Nobody but itself includes from a backend (src/rt,
which stands in place of them, may from those whose kernels archives hold), so what two share is in neither; LLVM's headers
are included by src/codegen and below src/backend/<name>/ alone. src/codegen, which several backends share, names no
instruction set.
"""

import re
import sys
import tempfile
from pathlib import Path

ORDER = [
    "base",
    "rewrite",
    "sigmatics",
    "ir",
    "canon",
    "atlas",
    "schedule",
    "interp",
    "strips",
    "codegen",
    "gpu",
    "host",
    "builtin",
    "backend",
    "compiler",
    "runtime",
    "archive",
    "capi",
    "rt",
]
INSTRUCTION_SETS = re.compile(r"avx|\bsse|neon|amx|x86", re.IGNORECASE)
BORROWS = {("rt", "backend/cpu"), ("rt", "backend/webgpu")}  # archives hold kernels by the keys of these, and launches of the latter
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
SUFFIXES = {".h", ".cpp", ".def", ".inc", ".c", ".hpp"}


def check_include(file, line, target, quoted):
    """The fault of one include as text, or None. `file` is relative to src/."""
    folder = file.parts[0]
    where = f"src/{file.as_posix()}:{line}"
    if re.match(r"llvm(-c)?/", target):
        if folder != "codegen" and not (folder == "backend" and len(file.parts) > 2):
            return f"{where}: includes {target}; only src/codegen and src/backend/<name>/ may include LLVM"
        return None
    head = target.split("/")[0]
    if head == ".." or "/../" in target:
        return f"{where}: includes {target}; write the path from src/"
    if not quoted or head not in ORDER or "/" not in target:
        return None
    if ORDER.index(head) > ORDER.index(folder):
        return f"{where}: {folder} includes {target}, but {head} comes after {folder}"
    owner, borrower = folder_of(target.split("/")), folder_of(file.parts)
    if "/" in owner and owner != borrower and (borrower, owner) not in BORROWS:
        return f"{where}: {borrower} includes {target} of {owner}"
    return None


def folder_of(parts):
    """The folder of src/ that a file's path from there lies in; backends are folders of their own."""
    return "/".join(parts[: 2 if parts[0] == "backend" and len(parts) > 2 else 1])


def arrows(src):
    """{folder of src/: the other folders that its files include from}, in the order of processing."""
    found = {}
    for path in sorted(p for p in src.rglob("*") if p.suffix in SUFFIXES):
        folder = folder_of(path.relative_to(src).parts)
        targets = (m.group(2).split("/") for m in INCLUDE.finditer(path.read_text(encoding="utf-8")) if m.group(1) == '"')
        found.setdefault(folder, set()).update(folder_of(t) for t in targets if t[0] in ORDER and len(t) > 1)
    position = {name: (ORDER.index(name.split("/")[0]), name) for name in {*found, *set().union(*found.values())}}
    return {f: sorted(found[f] - {f}, key=position.get) for f in sorted(found, key=position.get)}


def check_tree(src):
    """All faults below the folder `src`, and the number of files read."""
    faults = []
    count = 0
    for path in sorted(p for p in src.rglob("*") if p.suffix in SUFFIXES):
        file = path.relative_to(src)
        count += 1
        if len(file.parts) < 2 or file.parts[0] not in ORDER:
            faults.append(f"src/{file.as_posix()}: not in a folder of the list in {sys.argv[0]}")
            continue
        text = path.read_text(encoding="utf-8")
        for match in INSTRUCTION_SETS.finditer(text) if file.parts[0] == "codegen" else ():
            line = text.count("\n", 0, match.start()) + 1
            faults.append(f"src/{file.as_posix()}:{line}: names the instruction set {match.group()}; that belongs below src/backend/")
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            fault = check_include(file, line, match.group(2), match.group(1) == '"')
            if fault:
                faults.append(fault)
    return faults, count


SELF_TEST = [
    ("ir/a.h", '#include "base/expr.h"', True),
    ("ir/a.h", '#include "ir/graph.h"', True),
    ("ir/a.h", '#include "canon/canon.h"', False),
    ("base/a.cpp", '# include  "capi/handle.h"', False),
    ("codegen/a.cpp", '#include "llvm/IR/Module.h"', True),
    ("codegen/a.cpp", "#include <llvm/IR/Module.h>", True),
    ("backend/cpu/a.cpp", "#include <llvm/IR/Module.h>", True),
    ("backend/cpu/loops/a.cpp", "#include <llvm/IR/Module.h>", True),
    ("backend/a.cpp", "#include <llvm/IR/Module.h>", False),
    ("schedule/a.cpp", "#include <llvm/IR/Module.h>", False),
    ("codegen/a.cpp", "// AVX-512 has masks", False),
    ("backend/cpu/a.cpp", "// AVX-512 has masks", True),
    ("codegen/a.cpp", "// classes, assets", True),
    ("runtime/a.cpp", '#include "llvm-c/Core.h"', False),
    ("backend/cpu/a.cpp", '#include "backend/cpu/b.h"', True),
    ("backend/cpu/a.cpp", '#include "backend/backend.h"', True),
    ("backend/cpu/a.cpp", '#include "backend/interp/b.h"', False),
    ("backend/null/a.cpp", '#include "backend/interp/b.h"', False),
    ("backend/null/a.cpp", '#include "interp/b.h"', True),
    ("interp/a.cpp", '#include "backend/backend.h"', False),
    ("runtime/a.cpp", '#include "backend/interp/b.h"', False),
    ("runtime/a.cpp", '#include "backend/backend.h"', True),
    ("rt/a.cpp", '#include "backend/cpu/b.h"', True),
    ("canon/a.cpp", '#include "../ir/graph.h"', False),
    ("canon/a.cpp", "#include <vector>", True),
    ("strange/a.cpp", "#include <vector>", False),
]


def self_test():
    """Checks every row of SELF_TEST in a scratch tree; returns the number of wrong answers."""
    wrong = 0
    for name, text, good in SELF_TEST:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / name
            path.parent.mkdir(parents=True)
            path.write_text(text + "\n", encoding="utf-8")
            faults, _ = check_tree(Path(scratch))
        if (not faults) != good:
            wrong += 1
            print(f"{name}: {text}: expected {'no fault' if good else 'a fault'}, got {faults}")
    print(f"check_includes: {len(SELF_TEST) - wrong} of {len(SELF_TEST)} cases as expected")
    return wrong


def main():
    if "--self-test" in sys.argv[1:]:
        return 1 if self_test() else 0
    faults, count = check_tree(Path(__file__).resolve().parent.parent / "src")
    for fault in faults:
        print(fault)
    print(f"check_includes: {count} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
