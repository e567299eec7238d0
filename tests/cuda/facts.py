# tests/cuda/facts.py: what a machine is on which a run takes place, each fact with a limit of time
"""Facts that cannot be had are the reason why not. Nothing here opens the driver in the calling process."""

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from pack import OLDEST_ASSEMBLER, release_of
from runner import debugger

WRAPPER = """#!/bin/sh
# The assembler, with its words about registers and spills, and the PTX, where a run wants them.
[ "$1" = --version ] && exec '{path}' --version
words=$('{path}' -v "$@" 2>&1)
status=$?
[ -z "$HOLOGRAM_SPY_ASSEMBLED" ] || printf '%s\\n' "$words" >>"$HOLOGRAM_SPY_ASSEMBLED"
[ -z "$HOLOGRAM_SPY_KEEP" ] || cp "$2" "$HOLOGRAM_SPY_KEEP/assembled_$$.ptx"
printf '%s\\n' "$words"
exit $status
"""
DEVICE = """
import json
from hologram import _core
print(json.dumps(_core.Runtime("cuda").description))
"""
TENSORS = """
import json, torch, hologram_torch
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "available": torch.cuda.is_available(),
                  "device": torch.cuda.get_device_name() if torch.cuda.is_available() else None}))
"""


def said(command: list, environment: dict, limit: float = 30.0) -> str:
    """What it prints; its failure in words."""
    try:
        done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, timeout=limit)
    except FileNotFoundError:
        return f"there is no {command[0]}"
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within {limit:.0f} s"
    return done.stdout if done.returncode == 0 else f"status {done.returncode}: {(done.stderr or done.stdout)[-1500:]}"


def parsed(text: str):
    try:
        return json.loads(text.splitlines()[-1])
    except (ValueError, IndexError):
        return {"failed": text.strip()[-800:]}


def every_assembler(root: Path) -> dict[tuple[int, ...], Path]:
    """release → path: what the file brought first."""
    packages = Path(sysconfig.get_path("purelib"))
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    places = [root / "bin/ptxas", *(Path(home) / "bin/ptxas" for home in homes if home)]
    places += [Path(path) for path in [shutil.which("ptxas")] if path]
    places += [*packages.glob("triton/backends/nvidia/bin/ptxas*"), *packages.glob("nvidia/*/bin/ptxas")]
    found = {}
    for path in places:
        if path.exists() and (release := release_of(path)):
            found.setdefault(release, path)
    return found


def assemblers(root: Path) -> dict[str, Path]:
    """version → path: the newest from 13.3 on, and the newest of those before, whose code is known to be wrong at times."""
    found = every_assembler(root)
    best = [r for r in sorted(found, reverse=True) if r >= OLDEST_ASSEMBLER][:1]
    older = [r for r in sorted(found, reverse=True) if (12, 7) <= r < OLDEST_ASSEMBLER][:1]
    return {".".join(map(str, release)): found[release] for release in best + older}


def wrapped(found: dict[str, Path], folder: Path) -> dict[str, str]:
    """The same, each behind a script that keeps its words and its input."""
    out = {}
    for version, path in found.items():
        script = folder / f"ptxas-{version}"
        script.write_text(WRAPPER.format(path=path))
        script.chmod(0o755)
        out[version] = str(script)
    return out


def compute_sanitizer() -> str | None:
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer"]
    places += map(str, Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin/compute-sanitizer"))
    return next((path for path in places if path and os.access(path, os.X_OK)), None)


def sanitizer_works(tool: str | None, program: Path, environment: dict) -> str:
    """"" where it does; it needs more of a machine than a driver."""
    if not tool:
        return "there is no compute-sanitizer"
    test = "--gtest_filter=*LeavesTheInterpretersBits/cuda_add_f32"
    words = said([tool, "--tool", "memcheck", "--error-exitcode", "99", program, test], environment, 40)
    return "" if "ERROR SUMMARY: 0 errors" in words else words[-600:]


def processor() -> dict:
    text = Path("/proc/cpuinfo").read_text()
    line = lambda name: next((x.partition(":")[2].strip() for x in text.splitlines() if x.startswith(name)), "")
    flags = line("flags").split()
    return {"model": line("model name"), "cores": len(os.sched_getaffinity(0)), "amx": "amx_tile" in flags,
            "flags": " ".join(f for f in flags if f.startswith(("amx", "avx")))}  # fmt: skip


def gather(root: Path, environment: dict, write: Callable[[dict], None], *, tensors: bool) -> dict:
    """All facts; `write` gets them after each. `tensors`: PyTorch's too, which take seconds."""
    found = {"python": sys.version, "platform": platform.platform(), "libc": platform.libc_ver(), "processor": processor()}
    write(found)
    for name, ask in {
        "nvidia_smi": lambda: said(["nvidia-smi", "-q"], environment),
        "driver": lambda: said(["cat", "/proc/driver/nvidia/version"], environment),
        "assemblers": lambda: {".".join(map(str, release)): str(path) for release, path in every_assembler(root).items()},
        "debugger": lambda: debugger(0)[0],
        "memory": lambda: said(["free", "-m"], environment),
        "libraries": lambda: said(["sh", "-c", "ls -l /usr/lib/x86_64-linux-gnu/libstdc++.so.6* /usr/lib*/libcuda.so*"], environment),
        "device": lambda: parsed(said([sys.executable, "-c", DEVICE], environment, 60)),
        "tensors": lambda: parsed(said([sys.executable, "-c", TENSORS], environment, 90)) if tensors else {},
    }.items():
        found[name] = ask()
        write(found)
    return found
