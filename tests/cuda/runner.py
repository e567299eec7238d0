# tests/cuda/runner.py: runs tasks in processes of their own, some at a time, and writes what came of each at once
"""A task that never ends is shown to a debugger and killed with all its processes; the others go on. What a killed runner leaves is what it
had done, and its tasks end with it."""

import ctypes
import json
import os
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from io import BytesIO
from lzma import compress
from pathlib import Path
from shutil import rmtree, which
from typing import IO

STATES = ("failed", "cut off", "not run", "skipped", "passed")  # the worst first
MOST_BYTES = 15 << 20  # of each file that is left
SHOWN = 24 << 10  # bytes of the output of a task that did not pass, from its start and its end
DEBUGGER_SECONDS = 20.0
SHOWN_HANGS = 3  # so many are shown to a debugger
MANY_HANGS = 6  # behind so many, tasks get a third of their time


@dataclass
class Outcome:
    """What came of a task; `passed`, `failed` and `skipped` count the tests in it."""

    state: str
    words: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    data: dict = field(default_factory=dict)

    @property
    def tests(self) -> int:
        return self.passed + self.failed + self.skipped


@dataclass
class Ended:
    """A task's process at its end: `status` None where it was stopped, below 0 where a signal ended it."""

    status: int | None
    output: str
    seconds: float
    folder: Path  # of the task's own files

    def how(self) -> str:
        if self.status is None:
            return f"stopped after {self.seconds:.0f} s"
        if self.status < 0:
            return f"ended by {signal.Signals(-self.status).name}"
        return f"ended with status {self.status}"


def last_words(output: str) -> str:
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")


def by_status(ended: Ended) -> Outcome:
    """Of a command whose status tells all."""
    if ended.status == 0:
        return Outcome("passed", last_words(ended.output), passed=1)
    return Outcome("failed", f"{ended.how()}: {last_words(ended.output)}", failed=1)


@dataclass
class Task:
    """A command. Words {folder} in its environment and command become a folder of its own."""

    name: str
    stage: str
    command: list
    environment: dict = field(default_factory=dict)
    limit: float = 45.0
    alone: bool = False  # nothing runs beside it
    stops: bool = False  # its time being up is no failure
    read: Callable[[Ended], Outcome] = by_status
    then: Callable[["Task", Ended, Outcome], Iterable["Task"]] | None = None  # tasks that follow from how it ended
    tests: int = 1


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


def kill(process: subprocess.Popen):
    """The process and all under it."""
    for end, number in [*((os.kill, child) for child in descendants(process.pid)), (os.killpg, process.pid)]:
        try:
            end(number, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    process.wait()


def end_with_parent():
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG


def start(command: list, environment: dict, output: IO) -> subprocess.Popen:
    words = [str(word) for word in command]
    return subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                            start_new_session=True, preexec_fn=end_with_parent)  # fmt: skip


def debugger(process: int) -> list:
    """What shows where a process stands: NVIDIA's debugger shows the device's kernels too."""
    if found := which("cuda-gdb") or (Path("/usr/local/cuda/bin/cuda-gdb").exists() and "/usr/local/cuda/bin/cuda-gdb"):
        shown = ["info cuda kernels", "info cuda warps", "info cuda lanes", "bt"]
    elif found := which("gdb"):
        shown = ["thread apply all bt 12"]
    else:
        return ["sh", "-c", f"cat /proc/{process}/status /proc/{process}/wchan /proc/{process}/task/*/stack"]
    return [found, "-batch", "-nx", "-p", str(process), *(word for line in shown for word in ("-ex", line))]


class Results:
    """The files of a run: results.jsonl, output.txt, kernels.jsonl and kept.tar, each at most so large, flushed at each task's end."""

    def __init__(self, out: Path, say=print):
        out.mkdir(parents=True, exist_ok=True)
        self.out, self.say = out, say
        for name in ("results.jsonl", "output.txt", "kernels.jsonl", "kept.tar"):
            (out / name).unlink(missing_ok=True)

    def append(self, name: str, text: str):
        path = self.out / name
        if not path.exists() or path.stat().st_size + len(text) < MOST_BYTES:
            with path.open("a") as file:
                file.write(text)

    def keep(self, name: str, folder: Path):
        """The modules that a task loaded, each compressed."""
        path = self.out / "kept.tar"
        for file in sorted(folder.glob("*.*")):
            packed = compress(file.read_bytes())
            if path.exists() and path.stat().st_size + len(packed) > MOST_BYTES:
                return
            with tarfile.open(path, "a") as tar:
                entry = tarfile.TarInfo(f"{name.replace('/', '_').replace(' ', '_')}/{file.name}.xz")
                entry.size = len(packed)
                tar.addfile(entry, BytesIO(packed))

    def add(self, task: Task, outcome: Outcome, ended: Ended | None, kernels: list[dict]):
        line = {"task": task.name, "stage": task.stage, "seconds": round(ended.seconds, 2) if ended else 0, **vars(outcome)}
        self.append("results.jsonl", json.dumps(line) + "\n")
        for kernel in kernels:
            self.append("kernels.jsonl", json.dumps({"task": task.name, **kernel}) + "\n")
        if ended and outcome.state not in ("passed", "skipped"):
            text = ended.output
            shown = text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]}\n[…]\n{text[-SHOWN:]}"
            command = " ".join(map(str, task.command))
            self.append("output.txt", f"=== {task.name}: {outcome.state}\n$ {command}\n{shown}\n")
            self.keep(task.name, ended.folder / "modules")
        words = f": {outcome.words}" if outcome.words and outcome.state != "passed" else ""
        self.say(f"{outcome.state:8} {task.stage} | {task.name}{words[:300]}", flush=True)


class Running:
    """A task whose process has started."""

    def __init__(self, task: Task, environment: dict, home: Path):
        self.task, self.begun = task, time.monotonic()
        self.folder = Path(tempfile.mkdtemp(dir=home))
        (self.folder / "modules").mkdir()
        place = lambda word: str(word).replace("{folder}", str(self.folder))
        own = {name: place(value) for name, value in task.environment.items()}
        self.output = (self.folder / "output").open("w+b")
        self.process = start([place(word) for word in task.command], {**environment, **own}, self.output)
        self.debugger: subprocess.Popen | None = None
        self.debugger_end = 0.0

    def over(self, last: bool, hangs: int) -> bool:
        """Whether it has ended or is to be killed; `last`: there is no more time for any task; `hangs`: how many others never ended."""
        if self.process.poll() is not None:
            return True
        now = time.monotonic()
        if last:
            return True
        limit = self.task.limit / (3 if hangs >= MANY_HANGS else 1)
        if self.debugger is None and now - self.begun > limit:
            if self.task.stops or hangs >= SHOWN_HANGS:
                return True
            self.output.write(b"\n--- it does not end; where it stands:\n")
            self.output.flush()
            self.debugger = start(debugger(self.process.pid), dict(os.environ), self.output)
            self.debugger_end = now + DEBUGGER_SECONDS
        return self.debugger is not None and (self.debugger.poll() is not None or now > self.debugger_end)

    def end(self) -> Ended:
        seconds = time.monotonic() - self.begun
        status = None if self.debugger else self.process.poll()  # a debugger may have ended it
        for process in filter(None, (self.debugger, self.process)):
            kill(process)
        self.output.flush()
        self.output.seek(0)
        return Ended(status, self.output.read().decode(errors="replace"), seconds, self.folder)

    def remove(self):
        self.output.close()
        rmtree(self.folder, ignore_errors=True)


def outcome_of(task: Task, ended: Ended, last: bool) -> Outcome:
    """A reader that fails is a failure of its task."""
    if ended.status is None and last:
        return Outcome("cut off", f"no time was left after {ended.seconds:.0f} s")
    try:
        found = task.read(ended)
    except Exception as error:
        return Outcome("failed", f"{ended.how()}; {type(error).__name__}: {error}", failed=1)
    if ended.status is None and task.stops and found.state != "failed":
        return Outcome("cut off", f"{ended.how()}; {found.words}", found.passed, 0, found.skipped, found.data)
    return found


def run(tasks: list[Task], environment: dict, results: Results, *, seconds: float, jobs: int,
        kernels: Callable[[Path], list[dict]] = lambda folder: []) -> list[tuple[Task, Outcome, float]]:  # fmt: skip
    """Runs them in their order, `jobs` at a time; what there was no time for is "not run"."""
    deadline, todo, running, done, hangs = time.monotonic() + seconds, list(tasks), [], [], 0

    def note(task, outcome, ended=None, found=()):
        done.append((task, outcome, ended.seconds if ended else 0.0))
        results.add(task, outcome, ended, list(found))

    with tempfile.TemporaryDirectory() as home:
        while todo or running:
            last = time.monotonic() > deadline
            for entry in [entry for entry in running if entry.over(last, hangs)]:
                running.remove(entry)
                ended = entry.end()
                outcome = outcome_of(entry.task, ended, last)
                hangs += ended.status is None and not last and not entry.task.stops
                note(entry.task, outcome, ended, kernels(ended.folder))
                if entry.task.then and not last:
                    todo[:0] = entry.task.then(entry.task, ended, outcome)
                entry.remove()
            if last:
                for task in todo:
                    note(task, Outcome("not run", "no time was left"))
                todo.clear()
                continue
            while todo and len(running) < jobs and not any(entry.task.alone for entry in running):
                if todo[0].alone and running:
                    break
                running.append(Running(todo.pop(0), environment, Path(home)))
            time.sleep(0.02)
    return done
