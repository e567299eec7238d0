#!/usr/bin/env python3
# tests/cuda/run.py: what is to be shown on a machine with a GPU, in one command and one table
"""Runs the parts below one after the other, each of its steps in a process of its own with a time limit.

    python tests/cuda/run.py                               # on a machine with a GPU; at most 30 minutes
    python tests/cuda/run.py --parts corpus,functions --minutes 10
    python tests/cuda/run.py --dry                         # every part in a small form over the emulator of the tests

Writes build/cuda/results.json after each part, and each step's output to build/cuda/logs. Time that a part leaves goes to those after
it. A part is "passed", "failed", "cut off" (its time was up with nothing failed) or "not run", which says why. Status 1: a part failed,
or none passed.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
STATES = ("failed", "cut off", "not run", "passed")  # the worst first


class Outcome(NamedTuple):
    state: str
    words: str


class Missing(Exception):
    """Why a part cannot run."""


class Setting(NamedTuple):
    """What a part's steps are made for."""

    dry: bool
    build: Path
    out: Path
    seconds: float  # of the part
    machine: dict  # what probe() found

    def file(self, name: str) -> Path:
        """A file that a step writes; none is there before."""
        path = self.out / name
        path.unlink(missing_ok=True)
        return path


def last_line(status: int, output: str) -> Outcome:
    """Of a command whose status tells all."""
    lines = [line for line in output.splitlines() if line.strip()]
    return Outcome("failed" if status else "passed", lines[-1].strip() if lines else f"status {status}")


class Step(NamedTuple):
    name: str
    command: list
    environment: dict = {}
    read: Callable[[int, str], Outcome] = last_line
    stops: bool = False  # running out of time is no failure


# --- the parts ------------------------------------------------------------------------------------
def program(setting: Setting, name: str) -> Path:
    path = setting.build / "tests" / name
    if not path.exists():
        raise Missing(f"{path} is not built")
    return path


def tested(path: Path):
    """Outcome of a program of GoogleTest's: what ran, what was skipped."""

    def read(status, output):
        try:
            suites = json.loads(path.read_text())["testsuites"]
        except (OSError, ValueError):
            return Outcome("failed", f"ended with status {status} before its last test")
        results = [test for suite in suites for test in suite["testsuite"] if test["status"] == "RUN"]
        failed = [f"{test['classname']}.{test['name']}" for test in results if "failures" in test]
        skipped = sum(test["result"] == "SKIPPED" for test in results)
        passed = len(results) - skipped - len(failed)
        words = f"{passed} tests passed, {skipped} skipped" + "".join(f", {name} failed" for name in failed)
        if status or failed:
            return Outcome("failed", words + ("" if failed else f", status {status}"))
        return Outcome("passed" if passed else "not run", words)

    return read


def gtest(setting: Setting, name: str, dry_filter: str) -> Step:
    path = setting.file(f"{name}.json")
    command = [program(setting, name), "--gtest_brief=1", f"--gtest_output=json:{path}"]
    return Step(name, [*command, *([f"--gtest_filter={dry_filter}"] if setting.dry else [])], read=tested(path))


def corpus(setting: Setting):
    yield gtest(setting, "test_backend_cuda", "CudaBackend.AnElementwiseProgramRunsOnTheDevice:CudaDevice.TermsLeave*")
    yield gtest(setting, "test_backend_cuda_90", "CudaWideTerms.LeaveToChains*")
    yield gtest(setting, "test_conformance", "Reduce.ArgmaxAlone")


def swept(path: Path):
    """Outcome of tests/cuda/functions.py: how much was covered, and the first input of each function that differs."""

    def read(status, output):
        found = json.loads(path.read_text()) if path.exists() else {}
        lines = [line for line in output.splitlines() if "all inputs;" in line] if found else [last_line(status, output).words]
        lines += [f"{name} of {e['input']}: the CPU has {e['cpu']}, the device {e['device']}" for name, e in found.items() if "differ" in e]
        return Outcome("failed" if status or not found else "passed", "; ".join(lines))

    return read


def functions(setting: Setting):
    path = setting.file("functions.json")
    small = ["--count", "1024", "--blocks", "2", "--functions", "exp,lgamma,neg,cast_bf16"]
    command = [ROOT / "tests/cuda/functions.py", "--seconds", f"{0.85 * setting.seconds:.0f}", "--json", path]
    yield Step("all inputs", [sys.executable, *command, *(small if setting.dry else [])], read=swept(path))


def torchs(setting: Setting) -> dict:
    """The environment for tensors on the device: CUDA tensors, or in a dry run the host's, which the backend copies there."""
    if setting.dry:
        return {"HOLOGRAM_BACKEND": "cuda"}
    if setting.machine.get("no_tensors"):
        raise Missing(setting.machine["no_tensors"])
    return {}


def checked(path: Path):
    """Outcome of tests/torch/opinfo.py: something must have been compared."""

    def read(status, output):
        sys.path.append(str(ROOT / "tests/torch"))
        from opinfo import BAD, summary
        from opinfo_worker import PASSED

        results = json.loads(path.read_text()) if path.exists() else {}
        bad = [name for name, result in results.items() if result["status"] in BAD]
        words = summary(results).splitlines()[0] + "".join(f", {name} is bad" for name in bad)
        right = any(result["status"] in PASSED for result in results.values())
        return Outcome("failed" if status or bad or not right else "passed", words)

    return read


def operators(setting: Setting):
    environment = torchs(setting)
    ways = [("float32", "inference"), ("bfloat16", "inference"), ("float32", "training")]
    for dtype, mode in ways[: 1 if setting.dry else None]:
        path = setting.file(f"operators_{dtype}_{mode}.json")
        command = [ROOT / "tests/torch/opinfo.py", "--dtype", dtype, "--mode", mode, "--json", path, "--timeout", "60"]
        some = ["--device", "cpu", "--jobs", "1", "--direct", "add", "softmax"] if setting.dry else ["--device", "cuda"]
        yield Step(f"{dtype} {mode}", [sys.executable, *command, *some], environment, checked(path), stops=True)


def models(setting: Setting):
    environment = torchs(setting)
    small = ["--device", "cpu", "--models", "mlp", "--types", "bfloat16", "--products", "own"]
    command = [ROOT / "tests/cuda/models.py", "--json", setting.file("models.json")]
    yield Step("zoo", [sys.executable, *command, *(small if setting.dry else [])], environment)


def streams(setting: Setting):
    path = setting.file("streams.xml")

    def read(status, output):
        import xml.etree.ElementTree as xml

        if status not in (0, 1) or not path.exists():
            return Outcome("failed", last_line(status, output).words)
        suite = next(xml.parse(path).getroot().iter("testsuite"))
        count, wrong, skipped = (sum(int(suite.get(key, 0)) for key in keys) for keys in (["tests"], ["failures", "errors"], ["skipped"]))
        reasons = {case.get("message") for case in suite.iter("skipped")}
        words = f"{count - wrong - skipped} tests passed, {wrong} failed, {skipped} skipped" + "".join(f" ({r})" for r in reasons)
        return Outcome("failed" if status or wrong else "passed" if count > skipped else "not run", words)

    command = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", f"--junitxml={path}", ROOT / "tests/cuda/test_gpu.py"]
    yield Step("tests", [sys.executable, *command], read=read)


def compute_sanitizer() -> list:
    """The command: of PATH, of a toolkit, of PyPI's nvidia-cuda-sanitizer-api."""
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    packages = Path(sysconfig.get_path("purelib")) / "nvidia"
    found = shutil.which("compute-sanitizer")
    places = [Path(found)] if found else []
    places += [home / "bin/compute-sanitizer" for home in [*homes, Path("/usr/local/cuda")]]
    places += sorted(packages.glob("*/bin/compute-sanitizer"), reverse=True)
    for place in places:
        if place.exists():
            return [place]
    raise Missing("no compute-sanitizer: not on PATH, in no toolkit, and PyPI's nvidia-cuda-sanitizer-api is not installed")


def sanitizer(setting: Setting):
    tool, test = compute_sanitizer(), program(setting, "test_conformance")
    for check in ("memcheck", "racecheck", "synccheck"):
        path = setting.file(f"sanitizer_{check}.json")

        def read(status, output, path=path):
            found = tested(path)(status, output)
            summary = [line.strip("= ") for line in output.splitlines() if "ERROR SUMMARY" in line or "RACECHECK SUMMARY" in line]
            return Outcome(found.state, "; ".join([found.words, *summary]))

        command = [*tool, "--tool", check, "--error-exitcode", "99", test, "--gtest_brief=1", f"--gtest_output=json:{path}"]
        some = ["--gtest_filter=Reduce.ArgmaxAlone"] if setting.dry else []
        yield Step(check, [*command, *some], {"HOLOGRAM_CUDA_SYNC": "1"}, read, stops=True)


def bench(setting: Setting):
    environment = torchs(setting)
    path = setting.file("cuda.json")

    def read(status, output):
        cases = json.loads(path.read_text())["cases"] if path.exists() else {}
        return Outcome("failed" if status or not cases else "passed", f"{len(cases)} cases, in {path.with_suffix('.md')}")

    small = ["--dry", "--cases", "chain 1K", "--peers", "eager,hologram"] if setting.dry else ["--rounds", "5"]
    yield Step("cases", [sys.executable, ROOT / "bench/cuda.py", "--out", setting.out, *small], environment, read, stops=True)


PARTS = {  # name: (minutes of 30, its steps)
    "corpus": (6, corpus),
    "functions": (5, functions),
    "streams": (1, streams),
    "models": (3, models),
    "operators": (5, operators),
    "sanitizer": (4, sanitizer),
    "bench": (6, bench),
}


# --- running them ---------------------------------------------------------------------------------
def descendants(process: int) -> list[int]:
    """The processes under one, those in groups of their own too."""
    under: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):  # it ended
            continue
        under.setdefault(parent, []).append(int(path.parent.name))
    found = list(under.get(process, []))
    for child in found:
        found += under.get(child, [])
    return found


def run_step(step: Step, environment: dict, limit: float, log: Path) -> Outcome:
    """The step's outcome; all its processes end with it."""
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(word) for word in step.command], env={**environment, **step.environment}, cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            for end, number in [*((os.kill, child) for child in descendants(process.pid)), (os.killpg, process.pid)]:
                try:
                    end(number, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
    text = log.read_text(errors="replace")
    if status is not None:
        return step.read(status, text)
    so_far = step.read(0, text) if step.stops else Outcome("failed", "")
    words = f"stopped after {limit:.0f} s" + (f": {so_far.words}" if so_far.words else "")
    broke = step.stops and so_far.state == "failed" and "before its last test" not in so_far.words
    return Outcome("failed" if broke or not step.stops else "cut off", words)


def run_part(make, setting: Setting, environment: dict, say=print) -> dict:
    """{"state", "words", "seconds", "limit", "steps"} of one part."""
    begun, steps = time.monotonic(), []
    try:
        todo = list(make(setting))
    except Missing as missing:
        return {"state": "not run", "words": str(missing), "seconds": 0.0, "limit": setting.seconds, "steps": []}
    for number, step in enumerate(todo):
        start = time.monotonic()
        limit = max(1.0, (setting.seconds - (start - begun)) / (len(todo) - number))
        log = setting.out / "logs" / f"{make.__name__}_{step.name.replace(' ', '_')}.txt"
        outcome = run_step(step, environment, limit, log)
        seconds = time.monotonic() - start
        command = " ".join(map(str, step.command))
        steps.append({"name": step.name, **outcome._asdict(), "seconds": seconds, "limit": limit, "log": str(log), "command": command})
        say(f"  {step.name}: {outcome.state}, {seconds:.1f} s: {outcome.words}", flush=True)
    states = [step["state"] for step in steps]
    state = min(states, key=STATES.index)
    if state == "not run" and "passed" in states:
        state = "passed"
    words = "; ".join(f"{step['name']}: {step['words']}" for step in steps)
    return {"state": state, "words": words, "seconds": time.monotonic() - begun, "limit": setting.seconds, "steps": steps}


def environment_of(dry: bool, build: Path, home: str) -> dict:
    """Kernels are kept in `home`; a dry run has the tests' driver."""
    python = os.pathsep.join(filter(None, [str(ROOT / "tests/torch"), os.environ.get("PYTHONPATH", "")]))
    found = {**os.environ, "HOLOGRAM_CACHE_DIR": home, "PYTHONPATH": python, "PYTHONUNBUFFERED": "1"}
    if dry:
        return found | {"HOLOGRAM_CUDA_DRIVER": str(build / "tests/libfakecuda.so"), "HOLOGRAM_CUDA_ASSEMBLER": "driver"}
    found.setdefault("HOLOGRAM_CUDA_DRIVER", "libcuda.so.1")  # else programs of tests take their own
    found.setdefault("HOLOGRAM_CUDA_ASSEMBLER", "")
    return found


PROBE = """
import json, sys
found = {}
try:
    from hologram import _core
    found["device"] = _core.Runtime("cuda").description
except Exception as error:
    found["no_device"] = str(error)
if len(sys.argv) > 1 and "device" in found:
    try:
        import torch, hologram_torch
        found["torch"] = torch.__version__
        if not torch.cuda.is_available():
            found["no_tensors"] = f"PyTorch {torch.__version__} finds no GPU"
    except ImportError as error:
        found["no_tensors"] = str(error)
print(json.dumps(found))
"""


def probe(environment: dict, dry: bool) -> dict:
    """{"device" or "no_device", "torch", "no_tensors"}"""
    command = [sys.executable, "-c", PROBE, *([] if dry else ["torch"])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        return {"no_device": done.stderr.strip().splitlines()[-1:] and done.stderr.strip().splitlines()[-1]}
    found = json.loads(done.stdout.splitlines()[-1])
    if not dry and found.get("device", "").startswith("Fake"):
        return {"no_device": f"{environment['HOLOGRAM_CUDA_DRIVER']} is the emulator of the tests; --dry runs over it"}
    return found


def table(results: dict) -> str:
    lines = ["| part | | seconds | at most | |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {name} | {r['state']} | {r['seconds']:.0f} | {r['limit']:.0f} | {r['words']} |" for name, r in results.items()]
    return "\n".join(lines) + "\n"


def run(names, *, dry: bool, minutes: float, build: Path, out: Path, parts=PARTS) -> int:
    """Runs the parts and returns the status."""
    (out / "logs").mkdir(parents=True, exist_ok=True)
    begun, results = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as home:
        environment = environment_of(dry, build, home)
        machine = probe(environment, dry)
        print(machine.get("device") or machine["no_device"], flush=True)
        for number, name in enumerate(names):
            share, make = parts[name]
            left = 60 * minutes - (time.monotonic() - begun)
            seconds = max(1.0, left * share / sum(parts[other][0] for other in names[number:]))
            print(f"{name}, at most {seconds:.0f} s", flush=True)
            if "device" in machine:
                results[name] = run_part(make, Setting(dry, build, out, seconds, machine), environment)
            else:
                results[name] = {"state": "not run", "words": machine["no_device"], "seconds": 0.0, "limit": seconds, "steps": []}
            written = {"machine": machine, "dry": dry, "minutes": minutes, "seconds": time.monotonic() - begun, "parts": results}
            (out / "results.json").write_text(json.dumps(written, indent=1))
    print(table(results))
    states = [result["state"] for result in results.values()]
    return int("failed" in states or "passed" not in states)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="names, separated by commas")
    parser.add_argument("--minutes", type=float, default=30.0, help="for all of them")
    parser.add_argument("--dry", action="store_true", help="every part in a small form over the emulator; no GPU")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="the build whose programs and module are run")
    parser.add_argument("--out", type=Path, default=ROOT / "build/cuda")
    given = parser.parse_args()
    names = given.parts.split(",")
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    return run(names, dry=given.dry, minutes=given.minutes, build=given.build.resolve(), out=given.out.resolve())


if __name__ == "__main__":
    sys.exit(main())
