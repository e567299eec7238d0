#!/usr/bin/env python3
# tools/lines.py: lines of code of the library, its tests and its tools, counted by one rule
"""usage: lines.py [FOLDER...]

Every line of a file that git knows and that programs are written in counts, comments and blank ones too; what others write
(stubs of types), data (corpora, tables of what is expected, patches) and pages do not. With folders: the folders in these.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = set("py cpp h hpp c def cmake sh js mjs html css in".split())
PARTS = {
    "library": ("src", "include", "python", "js"),
    "tests": ("tests",),
    "emulator": ("emulator",),
    "tools": ("tools", "cmake", "bench", ".ci"),
    "examples": ("examples",),
}


def is_code(path):
    return path.name in ("CMakeLists.txt", "Makefile") or path.suffix[1:] in CODE


def counted(root):
    """(path, lines) of each file of code."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    for path in map(Path, filter(None, names)):
        if is_code(path) and (root / path).is_file():
            yield path, (root / path).read_bytes().count(b"\n")


def table(root, folders):
    """Rows (name, files, lines), the whole of each part first, or the folders below those given."""
    files, lines = Counter(), Counter()
    for path, n in counted(root):
        inside = [f for f in folders if path.is_relative_to(f)]
        part = [name for name, tops in PARTS.items() if path.parts[0] in tops]
        names = [str(Path(*path.parts[: len(Path(f).parts) + 1])) for f in inside] if folders else part
        for name in names:
            files[name] += 1
            lines[name] += n
    return [(name, files[name], lines[name]) for name in (sorted(lines, key=lines.get, reverse=True) if folders else PARTS)]


def main():
    rows = table(ROOT, sys.argv[1:])
    for name, files, lines in [*rows, ("all", *(sum(row[i] for row in rows) for i in (1, 2)))]:
        print(f"{lines:8,} lines in {files:5} files  {name}")


if __name__ == "__main__":
    main()
