#!/usr/bin/env python3
# tools/check_module.py: fails when the native module needs or exports more than it should
"""usage: tools/check_module.py MODULE [EXPORT...]

A module may need only libraries every Linux system with C++ has, and export only the named symbols.
"""

import re
import subprocess
import sys

ALLOWED = re.compile(r"^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[-\w]*)\.so")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    module, exports = sys.argv[1], set(sys.argv[2:])
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", module))
    if not needed:
        print(f"{module}: no needed library found; readelf's output has changed?")
        return 1
    bad = sorted(name for name in needed if not ALLOWED.match(name))
    # Columns of nm: address, kind, name; upper-case kinds are exported, V and W are weak.
    symbols = {line.split()[-1].split("@")[0] for line in
               output("nm", "-D", "--defined-only", module).splitlines() if line.strip()}
    extra = sorted(symbols - exports)
    missing = sorted(exports - symbols)
    for text, names in (("needs", bad), ("exports", extra), ("lacks", missing)):
        for name in names[:20]:
            print(f"{module}: {text} {name}")
    print(f"check_module: needs {', '.join(needed)}; exports {len(symbols)} symbols")
    return 1 if bad or extra or missing else 0


if __name__ == "__main__":
    sys.exit(main())
