#!/usr/bin/env python3
# tools/check_module.py: fails when a shared library needs or exports more than it should
"""usage: tools/check_module.py [--portable] [--with LIBRARY] FILE EXPORT...

FILE may need only libraries every Linux system with C++ has (and LIBRARY), and exports the named symbols (`*` stands for
the rest of a name) and no others. --portable: it runs on glibc 2.28, by the limits of the platform tag manylinux_2_28.
"""

import argparse
import fnmatch
import re
import subprocess
import sys

ALLOWED = re.compile(r"^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[-\w]*)\.so")
LIMITS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
# Symbols with these names were in libraries of their own until glibc 2.34.
FORMER = {re.compile(r"dl(open|sym|vsym|close|error|addr|info|mopen)$"): "libdl.so.2", re.compile(r"pthread_|sem_"): "libpthread.so.0"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def too_new(version):
    """Whether a version such as "GLIBC_2.34" is beyond its limit; a name without a limit is."""
    name, _, digits = version.partition("_")
    numbers = re.fullmatch(r"[\d.]+", digits)
    return not numbers or name not in LIMITS or tuple(map(int, digits.split("."))) > LIMITS[name]


def not_portable(imports, needed):
    """What of the imports, name to version, glibc 2.28 lacks."""
    faults = [f"{name}@{version}" for name, version in imports.items() if version and too_new(version)]
    for pattern, library in FORMER.items():
        users = [name for name, version in imports.items() if version.startswith("GLIBC") and pattern.match(name)]
        if users and library not in needed:
            faults.append(f"{library}, which has {users[0]}")
    # A strong import without a version is Python's or a mistake.
    faults += [f"{name}, of no library" for name, version in imports.items() if not version and not re.match(r"_?Py", name)]
    return faults


def read_imports(file):
    """Name to version, "" for none, of what a library asks others for; weak names without a version may be absent."""
    rows = (line.split() for line in output("nm", "-D", "--undefined-only", file).splitlines() if line.strip())
    pairs = [(kind, *name.partition("@")[::2]) for kind, name in (row[-2:] for row in rows)]
    return {name: version for kind, name, version in pairs if version or kind not in "wv"}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--portable", action="store_true")
    parser.add_argument("--with", dest="companion", default="")
    parser.add_argument("file")
    parser.add_argument("exports", nargs="*")
    arguments = parser.parse_args()
    file = arguments.file
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", file))
    if not needed:
        print(f"{file}: no needed library found; readelf's output has changed?")
        return 1
    # Columns of nm: address, kind, name@@version; the kind A is a version's own name.
    rows = [line.split() for line in output("nm", "-D", "--defined-only", file).splitlines() if line.strip()]
    symbols = {name.split("@")[0] for *_, kind, name in rows if kind != "A"}
    imports = read_imports(file)
    if arguments.companion in needed:
        imports = {name: version for name, version in imports.items() if not version.startswith("HOLOGRAM_")}
    faults = {
        "needs": [name for name in needed if name != arguments.companion and not ALLOWED.match(name)],
        "exports": [name for name in symbols if not any(fnmatch.fnmatchcase(name, e) for e in arguments.exports)],
        "exports LLVM:": [name for name in symbols if "4llvm" in name],
        "lacks": [export for export in arguments.exports if not fnmatch.filter(symbols, export)],
        "is not for glibc 2.28: needs": not_portable(imports, needed) if arguments.portable else [],
    }
    for text, names in faults.items():
        for name in sorted(names)[:20]:
            print(f"{file}: {text} {name}")
    versions = sorted({v for v in imports.values() if v and v[0] == "G"}, key=lambda v: [int(d) for d in re.findall(r"\d+", v)])
    print(f"check_module: needs {', '.join(needed)}; {versions[-1] if versions else 'no version'}; exports {len(symbols)} symbols")
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
