# tests/cuda/pack.py: a release build, what tests it and an assembler as one file, which runs wherever it is unpacked
"""Programs and libraries are stripped and name no place of this machine; there are no links in it. Related files lie side by side, as the
programs share most of their code."""

import io
import lzma
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("test_conformance", "test_backend_cuda", "test_backend_cuda_90")
LIBRARIES = ("libspycuda.so", "libfakecuda.so")
SOURCES = ("bench/*.py", "bench/conformance/*", "bench/shared/*", "tests/cuda/*.py", "tests/torch/*", "tests/conformance/corpus/*",
           "tests/fuzz/corpus/lane_assemble/*")  # fmt: skip
PACKAGES = ("nanobind-backend", "expecttest")  # that the target lacks
TARGET_PYTHON = "3.12"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
DICTIONARY = 256 << 20  # larger than all of it
OLDEST_ASSEMBLER = (13, 3)


def release_of(assembler: Path) -> tuple[int, ...]:
    """(13, 4, 59); () of what is no ptxas that runs here."""
    try:
        done = subprocess.run([assembler, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r", V([\d.]+)", done.stdout)
    return tuple(map(int, found[1].split("."))) if found else ()


def newest_assembler() -> Path | None:
    """Of those beside this Python's packages, from 13.3 on."""
    places = ("triton/backends/nvidia/bin/ptxas-blackwell", "triton/backends/nvidia/bin/ptxas", "nvidia/cu13/bin/ptxas")
    found = [path for place in places if (path := Path(sysconfig.get_path("purelib")) / place).exists()]
    best = max(found, key=release_of, default=None)
    return best if best and release_of(best) >= OLDEST_ASSEMBLER else None


def stripped(path: Path) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        done = subprocess.run(["objcopy", "--strip-unneeded", path, file.name], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"pack: objcopy of {path}: {done.stderr.strip()}")
        return Path(file.name).read_bytes()


def from_here(code: bytes, path: Path, place: str) -> bytes:
    """The library with a path to others that starts at itself, in the room of the one it was built with."""
    dynamic = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"RUNPATH\).*\[(.*)\]", dynamic)
    if not found:
        return code
    old, new = found[1].encode(), f"$ORIGIN/{place}".encode()
    if len(new) > len(old) or code.count(old + b"\0") != 1:
        raise SystemExit(f"pack: {path} has no room for another path than {found[1]}")
    return code.replace(old + b"\0", new + bytes(len(old) - len(new) + 1))


def packages(python: str) -> dict[str, bytes]:
    """Python packages as a target with this version of Python needs them: this environment's, or from PyPI."""
    found = {}
    if python == sysconfig.get_python_version():
        for name in PACKAGES:
            for file in metadata.files(name) or ():
                if file.suffix in (".py", ".so"):
                    found[f"packages/{file}"] = Path(file.locate()).read_bytes()
        return found
    with tempfile.TemporaryDirectory() as folder:
        words = ["--no-deps", "--only-binary", ":all:", "--python-version", python, "--dest", folder, "--quiet"]
        words += [word for tag in PLATFORMS for word in ("--platform", tag)]
        wanted = [f"{name}=={metadata.version(name)}" for name in PACKAGES]
        subprocess.run([sys.executable, "-m", "pip", "download", *words, *wanted], check=True)
        for wheel in sorted(Path(folder).glob("*.whl")):
            with zipfile.ZipFile(wheel) as file:
                found |= {f"packages/{name}": file.read(name) for name in file.namelist() if name.endswith((".py", ".so"))}
    return found


def contents(build: Path, assembler: Path | None, programs=PROGRAMS, python=TARGET_PYTHON) -> dict[str, bytes]:
    """Path in the file → what is there."""
    found = {}
    for pattern in SOURCES:
        found |= {str(path.relative_to(ROOT)): path.read_bytes() for path in sorted(ROOT.glob(pattern)) if path.is_file()}
    for path in sorted((ROOT / "python").rglob("*.py*")):
        if path.suffix in (".py", ".pyi"):
            found[f"build/release/{path.relative_to(ROOT)}"] = path.read_bytes()
    found |= packages(python)
    for module in (build / "python/hologram").glob("_core*.so"):
        found[f"build/release/python/hologram/{module.name}"] = from_here(stripped(module), module, "../..")
    for name in ("libhologram.so.0", "libhologram_compiler.so.0"):
        found[f"build/release/{name}"] = stripped(build / name)
    for name in (*LIBRARIES, *programs):
        found[f"build/release/tests/{name}"] = stripped(build / "tests" / name)
    if assembler:
        found["bin/ptxas"] = assembler.read_bytes()
    return found


def places_of(code: bytes) -> list[str]:
    """Paths of this tree in a program or library, but for those of sources in messages."""
    paths = re.findall(re.escape(str(ROOT).encode()) + rb"[^\0\n]*", code)
    return [path.decode(errors="replace") for path in paths if not re.search(rb"\.(cpp|h|def)$", path)]


def pack(build: Path, out: Path, assembler: Path | None, *, preset: int | None = 6, programs=PROGRAMS, python=TARGET_PYTHON,
         say=print) -> int:  # fmt: skip
    """Writes the file and returns its size. `preset`: of xz; None: not compressed."""
    begun, all_files = time.monotonic(), contents(build, assembler, programs, python)
    for name, data in all_files.items():
        if name.startswith("build/") and data[:4] == b"\x7fELF" and (places := places_of(data)):
            raise SystemExit(f"pack: {name} names {', '.join(places[:3])}")
    filters = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": preset or 0, "dict_size": DICTIONARY}]
    out.parent.mkdir(parents=True, exist_ok=True)
    file = out.open("wb") if preset is None else lzma.open(out, "wb", filters=filters)
    with file, tarfile.open(fileobj=file, mode="w") as tar:
        for name, data in all_files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755 if data[:4] == b"\x7fELF" or data[:2] == b"#!" else 0o644
            tar.addfile(entry, io.BytesIO(data))
    size = out.stat().st_size
    whole = sum(map(len, all_files.values())) / (1 << 20)
    say(f"{out}: {size / 1e6:.1f} MB, of {len(all_files)} files with {whole:.0f} MiB, in {time.monotonic() - begun:.0f} s")
    return size


def unpack(file: Path, folder: Path):
    with tarfile.open(file, "r:*") as tar:
        tar.extractall(folder, filter="data")
