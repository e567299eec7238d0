#!/usr/bin/env python3
# tests/cuda/shot.py: all that is to be shown on a machine with a GPU, packed into one file and run there in minutes
"""Packs a release build with its tests and an assembler; runs them on a machine with a GPU, from the smallest step to the timings.

    python tests/cuda/shot.py pack                         # build/shot.tar.xz, of a finished release build
    python tests/cuda/shot.py go --minutes 9 --out results --file build/shot.tar.xz      # there: NumPy, pytest, PyTorch
    python tests/cuda/shot.py go                           # this build, on this machine
    python tests/cuda/shot.py go --stages torch,timings --only '*llama*'
    python tests/cuda/shot.py go --without results.jsonl   # what did not pass there, and what there was no time for
    python tests/cuda/shot.py go --dry                     # some of each stage over the emulator of the tests

Each test has a process of its own and a limit of time; what never ends is shown to a debugger and killed; a test with a fault runs again
under compute-sanitizer. OUT gets facts.json, results.jsonl (a line for each task as it ends), output.txt (what those said that did not
pass), kernels.jsonl (registers, memory and launches of each kernel), kept.tar (PTX and machine code of tests that failed) and summary.md.
Status 1: something failed, or nothing passed.
"""

import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import facts  # noqa: E402
import pack  # noqa: E402
import runner  # noqa: E402
import tasks  # noqa: E402
from kernels import kernels_of, summary  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LAST_SECONDS = 6.0  # for the summary


def environment_of(build: Path) -> dict:
    """Of every task: modules of this build and what the file brought; nothing of the caller's settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HOLOGRAM_", "GTEST_"))}
    path = [build / "python", ROOT / "tests/torch", ROOT / "packages", *filter(None, [os.environ.get("PYTHONPATH")])]
    return own | {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONUNBUFFERED": "1"}


def driver_of(given, build: Path) -> str:
    return str(build / "tests/libfakecuda.so") if given.dry else os.environ.get("HOLOGRAM_CUDA_DRIVER", "libcuda.so.1")


def planted(todo: list[runner.Task], plants: list[str]) -> list[runner.Task]:
    """For the tests of this: "PATTERN:what=value" has the driver under matching tasks do something (spy_driver.cpp)."""
    for task in todo:
        for pattern, _, wish in (plant.rpartition(":") for plant in plants):
            if fnmatch.fnmatch(task.name, pattern):
                task.environment["HOLOGRAM_SPY_INJECT"] = f"capability=90,{wish}"
                task.limit = min(task.limit, 3.0)
    return todo


def passed_in(results: Path | None) -> set[str]:
    """Tasks that an earlier run has behind it."""
    lines = results.read_text().splitlines() if results else []
    return {line["task"] for line in map(json.loads, lines) if line["state"] in ("passed", "skipped")}


def chosen(setting: tasks.Setting, environment: dict, given, done: set[str]) -> list[runner.Task]:
    programs, todo = tasks.Programs(setting, environment), []
    wanted = lambda name: name not in done and any(fnmatch.fnmatch(name, pattern) for pattern in given.only.split(","))
    for stage in given.stages.split(","):
        found = [task for task in tasks.STAGES[stage](setting, programs) if wanted(task.name)]
        some = {kind: [t for t in found if t.stage == kind][: tasks.FEW] for kind in dict.fromkeys(t.stage for t in found)}
        todo += sum(some.values(), []) if given.dry and given.only == "*" else found
    for task in todo:
        task.limit *= 4 if given.dry else 1  # of a machine that may have other work
    return planted(todo, given.plant)


def go(given) -> int:
    begun = time.monotonic()
    build, out, earlier = given.build.resolve(), given.out.resolve(), passed_in(given.without)
    results = runner.Results(out)
    environment = environment_of(build)
    driver = driver_of(given, build)
    asked = environment | {"HOLOGRAM_CUDA_DRIVER": driver} | ({"HOLOGRAM_CUDA_ASSEMBLER": "driver"} if given.dry else {})
    write = lambda found: (out / "facts.json").write_text(json.dumps(found, indent=1))
    tensors = not given.dry and not {"torch", "operators", "timings"}.isdisjoint(given.stages.split(","))
    found = facts.gather(ROOT, asked, write, tensors=tensors)
    device = found["device"] if isinstance(found["device"], str) else ""
    if not device or device.startswith("Fake") != given.dry:
        why = f"{driver} is the emulator of the tests; --dry runs over it" if device else found["device"].get("failed", "")
        (out / "summary.md").write_text(f"No device: {why}\n\n0 passed, 0 failed, 0 skipped\n")
        print((out / "summary.md").read_text())
        return 1
    print(device, flush=True)
    with tempfile.TemporaryDirectory() as home:
        scripts = {} if given.dry else facts.wrapped(facts.assemblers(ROOT), Path(home))
        tensors = given.dry or bool(found["tensors"].get("available"))
        setting = tasks.Setting(build, driver, given.dry, scripts or {"driver": "driver"}, None, tensors, found["processor"]["amx"])
        tool = facts.compute_sanitizer()
        found["sanitizer"] = facts.sanitizer_works(tool, build / "tests/test_conformance", environment | setting.spied())
        setting.sanitizer = None if found["sanitizer"] else tool
        write(found)
        todo = chosen(setting, environment, given, earlier)
        seconds = 60 * given.minutes - (time.monotonic() - begun) - LAST_SECONDS
        done = runner.run(todo, environment, results, seconds=seconds, jobs=given.jobs, kernels=kernels_of)
    text = summary(done, device, out / "kernels.jsonl")
    (out / "summary.md").write_text(text)
    print(text)
    return int(any(o.state == "failed" for _, o, _ in done) or not any(o.passed for _, o, _ in done))


def unpacked(given) -> int:
    """The file's own script, from where it is unpacked."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        pack.unpack(given.file, Path(folder))
        minutes = given.minutes - (time.monotonic() - begun) / 60
        words = ["--minutes", str(minutes), "--out", str(given.out.resolve()), "--jobs", str(given.jobs), "--stages", given.stages]
        words += ["--only", given.only, *(["--dry"] if given.dry else []), *(w for plant in given.plant for w in ("--plant", plant))]
        words += ["--without", str(given.without.resolve())] if given.without else []
        script = Path(folder) / "tests/cuda/shot.py"
        process = runner.start([sys.executable, script, "go", *words], dict(os.environ), None)
        return process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    packs = kinds.add_parser("pack", help="one file of a finished release build")
    packs.add_argument("--out", type=Path, default=ROOT / "build/shot.tar.xz")
    packs.add_argument("--assembler", type=Path, default=pack.newest_assembler(), help="a ptxas, from 13.3 on")
    packs.add_argument("--python", default=pack.TARGET_PYTHON, help="the version there")
    packs.add_argument("--preset", type=int, default=6, help="of xz")
    goes = kinds.add_parser("go", help="run on this machine")
    goes.add_argument("--minutes", type=float, default=9.0, help="at the end of which everything has ended")
    goes.add_argument("--out", type=Path, default=ROOT / "build/cuda")
    goes.add_argument("--file", type=Path, help="what `pack` wrote; else the build of this tree is run")
    goes.add_argument("--stages", default=",".join(tasks.STAGES), help="names, separated by commas")
    goes.add_argument("--only", default="*", help="patterns of tasks' names, separated by commas")
    goes.add_argument("--without", type=Path, help="results.jsonl of an earlier run: leave out what passed there")
    goes.add_argument("--jobs", type=int, default=max(1, min(8, len(os.sched_getaffinity(0)) // 2)), help="tasks at a time")
    goes.add_argument("--dry", action="store_true", help="some of each stage over the emulator; no GPU")
    goes.add_argument("--plant", action="append", default=[], help=argparse.SUPPRESS)
    for command in (packs, goes):
        command.add_argument("--build", type=Path, default=ROOT / "build/release")
    given = parser.parse_args()
    if given.kind == "pack":
        return int(pack.pack(given.build, given.out, given.assembler, preset=given.preset, python=given.python) > 40e6)
    if unknown := set(given.stages.split(",")) - set(tasks.STAGES):
        goes.error(f"there is no stage {min(unknown)!r}; there are {', '.join(tasks.STAGES)}")
    return unpacked(given) if given.file else go(given)


if __name__ == "__main__":
    sys.exit(main())
