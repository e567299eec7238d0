#!/usr/bin/env python3
# tools/old_glibc.py: writes libraries to link with that show an older glibc's symbols
"""usage: tools/old_glibc.py VERSION FOLDER CC

A linker binds a name to the default version that it finds, which in a new glibc may be a new one (`exp@GLIBC_2.29`,
`dlopen@GLIBC_2.34`), while the library still has the old one beside it. The stubs written here have no code, only
names: of each the newest version that is not newer than VERSION. What has none is missing, so that a
linker reports it. FOLDER then holds `libc.so` and its siblings, to be found before the system's.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

LIBRARIES = {"libc": "libc.so.6", "libm": "libm.so.6", "libpthread": "libpthread.so.0", "libdl": "libdl.so.2",
             "librt": "librt.so.1"}
LOADERS = ["ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"]
# glibc 2.34 moved what these libraries had into libc, with a new version beside the old one.
MOVED = [(re.compile(r"pthread_|sem_"), "libpthread"), (re.compile(r"dl"), "libdl"),
         (re.compile(r"shm_|timer_|mq_|aio_|lio_"), "librt")]


def number(version):
    """The comparable form of "GLIBC_2.28"; None of GLIBC_PRIVATE and of other names."""
    digits = re.fullmatch(r"GLIBC_([\d.]+)", version)
    return tuple(map(int, digits[1].split("."))) if digits else None


def path_of(name, cc):
    return subprocess.run([cc, f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()


def symbols_of(library):
    """Name to {version: kind} of the symbols that a library exports."""
    text = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"(\w+) +(?:GLOBAL|WEAK|UNIQUE) +DEFAULT +\d+ (\w+)@@?(\S+)", text)
    symbols = defaultdict(dict)
    for kind, name, version in rows:
        symbols[name][version] = kind
    if not symbols:
        raise SystemExit(f"{library}: no symbol found; readelf's output has changed?")
    return symbols


def owner(name, library, moved):
    """The library that had a symbol of today's `library` then; None where it isn't known."""
    if not moved:
        return library
    return next((then for pattern, then in MOVED if pattern.match(name)), None)


def stubs(limit, cc):
    """Library to [(name, version, kind)]."""
    found = {library: [] for library in LIBRARIES}
    for library, file in LIBRARIES.items():
        for name, versions in symbols_of(path_of(file, cc)).items():
            numbered = {number(v): v for v in versions if number(v)}
            old = [n for n in numbered if n <= limit]
            if not old:
                continue
            then = owner(name, library, library == "libc" and (2, 34) in numbered)
            if then:
                version = numbered[max(old)]
                found[then].append((name, version, versions[version]))
    return found


def write(folder, library, symbols, cc):
    """Compiles the stub of one library."""
    lines = []
    for i, (name, version, kind) in enumerate(sorted(symbols)):
        lines += [f".globl s{i}", f".type s{i}, %{'object' if kind == 'OBJECT' else 'function'}",
                  f".symver s{i}, {name}@@{version}, remove", f"s{i}: .byte 0", f".size s{i}, 1"]
    source, script = folder / f"{library}.s", folder / f"{library}.map"
    source.write_text("\n".join([".data", *lines, '.section .note.GNU-stack,"",%progbits', ""]))
    versions = sorted({version for _, version, _ in symbols}, key=number)
    script.write_text("".join(f"{version} {{}};\n" for version in versions))
    name = LIBRARIES[library]
    subprocess.run([cc, "-shared", "-nostdlib", "-fuse-ld=bfd", f"-Wl,-soname,{name}", f"-Wl,--version-script={script}",
                    "-o", folder / name, source], check=True)


def main():
    limit, folder, cc = number("GLIBC_" + sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    folder.mkdir(parents=True, exist_ok=True)
    for library, symbols in stubs(limit, cc).items():
        write(folder, library, symbols, cc)
        if library != "libc":
            (folder / f"{library}.so").write_text(f"INPUT({folder / LIBRARIES[library]})\n")
    # As the system's: some functions are in a static library, and the dynamic linker has a few.
    (loader,) = (path for path in (path_of(name, cc) for name in LOADERS) if "/" in path)
    (folder / "libc.so").write_text(f"GROUP({folder / 'libc.so.6'} {path_of('libc_nonshared.a', cc)} {loader})\n")


if __name__ == "__main__":
    main()
