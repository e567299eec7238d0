#!/usr/bin/env python3
# tests/capi/exports.py: fails when libhologram exports something else than its header declares
"""usage: exports.py HEADER LIBRARY LIST [--update]

LIST holds the functions of the interface so far: none of them may go. --update adds the new ones.
"""

import re
import subprocess
import sys
from pathlib import Path


def main():
    header, library, listed = (Path(p) for p in sys.argv[1:4])
    declared = set(re.findall(r"\b(hologram_\w+)\(", re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)))
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    # Symbols of the version HOLOGRAM_PRIVATE_... are for the Python module of the same build.
    rows = [line.split() for line in symbols.splitlines() if line.strip()]
    exported = {name.split("@")[0] for *_, kind, name in rows if kind != "A" and "@HOLOGRAM_PRIVATE" not in name}
    if "--update" in sys.argv:
        listed.write_text("".join(f"{name}\n" for name in sorted(declared)))
    known = set(listed.read_text().split())
    faults = [f"{name}: declared, but not exported" for name in sorted(declared - exported)]
    faults += [f"{name}: exported, but not declared" for name in sorted(exported - declared)]
    faults += [f"{name}: was part of the interface and is gone" for name in sorted(known - declared)]
    faults += [f"{name}: new; run with --update" for name in sorted(declared - known)]
    for fault in faults[:40]:
        print(fault)
    print(f"exports: {len(exported)} functions, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
