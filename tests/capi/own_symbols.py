#!/usr/bin/env python3
# tests/capi/own_symbols.py: fails when code for one instruction set has names that other code could be linked to
"""usage: own_symbols.py ARCHIVE

Of the objects of an archive that are compiled for more than the least instruction set (avx...), what others see ends in `_vectors`: a
linker may take any one copy of an inline function, and then a machine without these instructions would run it.
"""

import subprocess
import sys


def main():
    lines = subprocess.run(["nm", "-C", "--defined-only", sys.argv[1]], check=True, capture_output=True, text=True).stdout.splitlines()
    member, seen, faults = "", 0, []
    for line in lines:
        if line.endswith(".o:"):
            member = line[:-1]
            seen += member.startswith("avx")
        elif member.startswith("avx") and line:
            _, kind, name = line.split(maxsplit=2)
            if (kind.isupper() or kind == "u") and not name.endswith("_vectors()"):
                faults.append(f"{member}: {name}")
    print(*faults, f"own_symbols: {seen} objects, {len(faults)} faults", sep="\n")
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
