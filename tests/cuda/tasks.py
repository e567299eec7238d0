# tests/cuda/tasks.py: what is run on a GPU, from the smallest step to the timings, and how its words are read
"""Each stage is a function of a Setting that yields tasks; STAGES has them in their order."""

import fnmatch
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner import Ended, Outcome, Task, last_words

ROOT = Path(__file__).resolve().parents[2]
FAULTS = re.compile(r"\(error (70[0-9]|71[0-9])\)|\"error\": (70[0-9]|71[0-9])|CUDA error|SIG(SEGV|ABRT|BUS)")
FEW = 1  # tasks of a stage in a dry run


@dataclass
class Setting:
    """What tasks are made for."""

    build: Path
    driver: str  # NVIDIA's, or the emulator's file
    dry: bool = False
    assemblers: dict[str, str] = field(default_factory=lambda: {"driver": "driver"})  # name → what the backend is told
    sanitizer: str | None = None
    tensors: bool = True  # PyTorch has CUDA tensors, or takes the host's in a dry run
    amx: bool = False
    reruns: int = 9  # under the sanitizer, of tests with a fault
    python: str = sys.executable

    @property
    def assembler(self) -> str:
        return next(iter(self.assemblers))

    def spied(self, assembler: str | None = None, multiprocessors: int | None = None) -> dict:
        """The environment of programs whose kernels are watched."""
        found = {"HOLOGRAM_CUDA_DRIVER": str(self.build / "tests/libspycuda.so"), "HOLOGRAM_SPY_DRIVER": self.driver,
                 "HOLOGRAM_SPY_LOG": "{folder}/kernels", "HOLOGRAM_SPY_KEEP": "{folder}/modules",
                 "HOLOGRAM_CACHE_DIR": "{folder}/cache", "HOLOGRAM_SPY_ASSEMBLED": "{folder}/assembled",
                 "HOLOGRAM_CUDA_ASSEMBLER": self.assemblers[assembler or self.assembler]}  # fmt: skip
        if multiprocessors:
            found["HOLOGRAM_SPY_MULTIPROCESSORS"] = str(multiprocessors)
        return found | ({"HOLOGRAM_SPY_INJECT": "capability=90"} if self.dry else {})

    def watched(self) -> dict:
        """That of programs with PyTorch; in a dry run the host's tensors take the place of CUDA tensors."""
        return self.spied() | ({"HOLOGRAM_BACKEND": "cuda"} if self.dry else {})

    def unwatched(self) -> dict:
        """Likewise, with the driver itself: for sweeps and times."""
        found = {"HOLOGRAM_CUDA_DRIVER": self.driver, "HOLOGRAM_CUDA_ASSEMBLER": self.assemblers[self.assembler]}
        return found | ({"HOLOGRAM_BACKEND": "cuda"} if self.dry else {})


# --- programs of GoogleTest's ---------------------------------------------------------------------
def gtests(ended: Ended) -> Outcome:
    """Tests that ran; one that began and did not end is a failure, and so is a program without any."""
    lines = ended.output.splitlines()
    of = lambda mark: list(dict.fromkeys(m[1] for line in lines if (m := re.match(rf"\[ *{mark} *\] ([^ ,]+)(,.*)? \(\d+ ms\)$", line))))
    begun = [line.split("] ")[1].split(",")[0] for line in lines if line.startswith("[ RUN      ]")]
    passed, failed, skipped = of("OK"), of("FAILED"), of("SKIPPED")
    lost = [name for name in begun if name not in {*passed, *failed, *skipped}]
    bad = failed + lost
    if bad or ended.status != 0 or not begun:
        why = f"{ended.how()} in {lost[0]}" if lost else "" if failed else f"{ended.how()}: {last_words(ended.output)}"
        first = next((n for n, line in enumerate(lines) if ": Failure" in line), None)
        told = " ".join(" ".join(lines[first + 1 : first + 9]).split()) if first is not None else ""
        return Outcome("failed", "; ".join(filter(None, [why, told])), len(passed), max(len(bad), 1), len(skipped))
    words = next((line for line in lines if "Skipped" in line), "")
    at = lines.index(words) + 1 if words else 0
    return Outcome("passed" if passed else "skipped", "" if passed else " ".join(lines[at : at + 1]), len(passed), 0, len(skipped))


def listed(program: Path, environment: dict) -> list[str]:
    """Names of its tests."""
    if not program.exists():
        raise SystemExit(f"{program} is not built")
    done = subprocess.run([program, "--gtest_list_tests"], env=environment, capture_output=True, text=True, timeout=60)
    names, suite = [], ""
    for line in done.stdout.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith(" "):
            names.append(suite + word)
        elif word.endswith("."):
            suite = word
    return names


def again_by_sanitizer(setting: Setting, checks: tuple):
    """What follows a fault: the same test under compute-sanitizer, where that works here."""

    def then(task: Task, ended: Ended, outcome: Outcome) -> Iterator[Task]:
        spied = ended.folder / "kernels"
        told = ended.output + (spied.read_text() if spied.exists() else "")
        fault = outcome.state == "failed" and (FAULTS.search(told) or (ended.status or 0) < 0)
        for check in checks if fault and setting.sanitizer and setting.reruns > 0 else ():
            setting.reruns -= 1
            yield sanitized(setting, task, check)

    return then


def sanitized(setting: Setting, task: Task, check: str) -> Task:
    def read(ended: Ended) -> Outcome:
        found = gtests(ended)
        reports = [line.strip("= ") for line in ended.output.splitlines() if line.startswith("=========") and "SUMMARY" in line]
        found.words = "; ".join([*reports, found.words])
        return found

    tool = [setting.sanitizer, "--tool", check, "--error-exitcode", "99", "--print-limit", "20"]
    environment = task.environment | {"HOLOGRAM_CUDA_SYNC": "1", "HOLOGRAM_TEST_REPEATS": "1"}
    return Task(f"{task.name}, {check}", "sanitizer", [*tool, *task.command], environment, 60, read=read)


def gtest(setting: Setting, stage: str, program: str, name: str, *, limit=30.0, assembler=None, multiprocessors=None) -> Task:
    environment = setting.spied(assembler, multiprocessors)
    if not setting.dry:  # a race shows in other bits, some time
        environment["HOLOGRAM_TEST_REPEATS"] = "20" if name.endswith("_device") else "100"
    about = [assembler or setting.assembler, *([f"{multiprocessors} SM"] if multiprocessors else [])]
    command = [setting.build / "tests" / program, f"--gtest_filter={name}"]
    checks = ("memcheck", "racecheck", "synccheck") if program == "test_backend_cuda_90" else ("memcheck",)
    return Task(f"{name} ({', '.join(about)})", stage, command, environment, limit, read=gtests, then=again_by_sanitizer(setting, checks))


class Programs:
    """The names of the tests of each program, asked for once."""

    def __init__(self, setting: Setting, environment: dict):
        self.setting, self.environment, self.known = setting, environment, {}

    def matching(self, program: str, *patterns: str) -> list[str]:
        if program not in self.known:
            own = {"HOLOGRAM_CUDA_DRIVER": self.setting.spied()["HOLOGRAM_CUDA_DRIVER"], "HOLOGRAM_TEST_BACKENDS": "interp,cuda"}
            self.known[program] = listed(self.setting.build / "tests" / program, {**self.environment, **own})
        names = self.known[program]
        return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


NINETY = "test_backend_cuda_90"


def rungs(programs: Programs, pattern: str) -> list[str]:
    """Filters of all tests of each rung, in the order of its table."""
    return list(dict.fromkeys(re.sub(r"\.[^/]*/", ".*/", name) for name in programs.matching(NINETY, pattern)))


def first(setting: Setting, programs: Programs) -> Iterator[Task]:
    """One element-wise program, one reduction, one scan, one scatter, one sort."""
    ours = "*LeavesTheInterpretersBits/cuda_"
    for name in (f"{ours}add_f32", f"{ours}sum_f32", f"{ours}scan", f"{ours}f32_exp", "*/Scatters.*/sums", f"{ours}order"):
        for test in programs.matching("test_conformance", name):
            yield gtest(setting, "first", "test_conformance", test, limit=30)


def products(setting: Setting, programs: Programs) -> Iterator[Task]:
    """One tile of each kind; then from one tile of the wide kernel to parts of k."""
    for assembler in setting.assemblers:
        for name in rungs(programs, "Products/*/*"):
            if "/wide" not in name:
                yield gtest(setting, "tiles", NINETY, name, assembler=assembler)
    for multiprocessors in (1, 4, None):
        for assembler in setting.assemblers:
            for name in rungs(programs, "Products/*/wide*"):
                if ("_device" in name) == (multiprocessors is None):
                    limit = 60 if multiprocessors is None else 30
                    yield gtest(setting, "wide", NINETY, name, limit=limit, assembler=assembler, multiprocessors=multiprocessors)
        if multiprocessors == 1:
            for assembler in setting.assemblers:
                for name in programs.matching(NINETY, "Cuda*Device.*"):
                    if "Attention" not in name:
                        yield gtest(setting, "wide", NINETY, name, limit=60, assembler=assembler, multiprocessors=4)


def attention(setting: Setting, programs: Programs) -> Iterator[Task]:
    """By warpgroups; wide heads; gradients by tensor cores and by chains."""
    for assembler in setting.assemblers:
        for name in rungs(programs, "Attention/*"):
            yield gtest(setting, "attention", NINETY, name, assembler=assembler)
    for assembler in setting.assemblers:
        for name in programs.matching(NINETY, "Cuda*AttentionDevice.*"):
            yield gtest(setting, "attention", NINETY, name, limit=60, assembler=assembler, multiprocessors=4)
    for name in programs.matching("test_conformance", "Attention.WideHeads", "AttentionGradHalves.*", "AttentionGrad.*"):
        task = gtest(setting, "attention", "test_conformance", name, limit=60)
        task.environment["HOLOGRAM_TEST_BACKENDS"] = "interp,cuda"
        yield task


def corpus(setting: Setting, programs: Programs) -> Iterator[Task]:
    """Every program of the conformance tests, beside the interpreter alone; the backend's own tests."""
    every = programs.matching("test_conformance", "*")
    for name in sorted(every, key=lambda name: "LeavesTheInterpretersBits" not in name):
        if not re.search(r"/interp(_|$)", name):
            task = gtest(setting, "corpus", "test_conformance", name, limit=120)
            task.environment["HOLOGRAM_TEST_BACKENDS"] = "interp,cuda"
            yield task
    for name in programs.matching("test_backend_cuda", "Cuda*Device.*"):
        yield gtest(setting, "corpus", "test_backend_cuda", name, limit=60)


# --- with Python ----------------------------------------------------------------------------------
def pytests(ended: Ended) -> Outcome:
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last_words(ended.output))}
    passed, skipped = counts.get("passed", 0), counts.get("skipped", 0)
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if failed or ended.status != 0 or not counts:
        told = [line for line in ended.output.splitlines() if line.startswith("E  ")]
        return Outcome("failed", "; ".join([ended.how(), *(line[1:].strip() for line in told[:3])]), passed, failed or 1, skipped)
    reasons = re.findall(r"SKIPPED.*?: (.*)", ended.output)
    return Outcome("passed" if passed else "skipped", "; ".join(reasons), passed, 0, skipped)


def names_in(path: Path) -> list[str]:
    """Test functions of a file."""
    return re.findall(r"^def (test_\w+)\(", path.read_text(), re.M)


def torch(setting: Setting, programs: Programs) -> Iterator[Task]:
    """Streams, graphs, memory, gradients; then models, one process each."""
    path = ROOT / "tests/cuda/test_gpu.py"
    options = ["-q", "-rs", "-p", "no:cacheprovider", "--rootdir", ROOT / "tests/cuda"]
    for name in names_in(path):
        command = [setting.python, "-m", "pytest", *options, f"{path}::{name}"]
        fills = "memory" in name  # of the device, which others need too
        yield Task(name, "torch", command, setting.watched(), 120, read=pytests, alone=fills and not setting.dry)
    if not setting.tensors:
        return
    on = ["--device", "cpu"] if setting.dry else []
    models = ["mlp"] if setting.dry else zoo()
    for products in ("own", "pytorchs"):
        for model in models:
            for dtype in ("bfloat16", "float32"):
                words = ["--models", model, "--types", dtype, "--products", products, *on]
                command = [setting.python, ROOT / "tests/cuda/models.py", *words]
                yield Task(f"{model} {dtype}, {products} products", "models", command, setting.watched(), 120)


def zoo() -> list[str]:
    """The models of bench/shared/zoo.py, by its text: importing it takes PyTorch."""
    return re.findall(r"\w+", (ROOT / "bench/shared/zoo.py").read_text().partition("for function in (")[2].partition(")")[0])


def bench_cases() -> list[str]:
    """Those of bench/cuda_cases.py, likewise."""
    return re.findall(r'^        Case\("([^"]+)"', (ROOT / "bench/cuda_cases.py").read_text(), re.M)


def functions(setting: Setting, programs: Programs) -> Iterator[Task]:
    """Every operation of one number beside the CPU's bits: a process for each type."""

    def read(ended: Ended) -> Outcome:
        path = ended.folder / "functions.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        tell = "{} of {input}: the CPU has {cpu}, the device {device}"
        bad = [tell.format(name, **entry) for name, entry in found.items() if "differ" in entry]
        if bad or not found or ended.status:
            why = "; ".join(bad) or f"{ended.how()}: {last_words(ended.output)}"
            return Outcome("failed", why, len(found) - len(bad), len(bad) or 1)
        return Outcome("passed", last_words(ended.output), len(found))

    few = ["--count", "1024", "--blocks", "2", "--functions", "exp,neg"] if setting.dry else []
    for dtype in ("bf16", "f16", "f32"):
        command = [setting.python, ROOT / "bench/conformance/device_functions.py", "--types", dtype, "--seconds", "40"]
        command += ["--json", "{folder}/functions.json"]
        yield Task(f"functions of {dtype}", "functions", [*command, *few], setting.unwatched(), 75, read=read, stops=True)


def operators(setting: Setting, programs: Programs) -> Iterator[Task]:
    """PyTorch's operator database."""

    def read(ended: Ended) -> Outcome:
        path = ended.folder / "operators.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        bad = [f"{name} ({e['status']})" for name, e in found.items() if e["status"] in ("crash", "timeout", "error", "fail")]
        right = sum(e["status"] in ("native", "fallback", "nondet") for e in found.values())
        if bad or not right or (ended.status or 0) < 0:
            return Outcome("failed", ", ".join(bad) or f"{ended.how()}: {last_words(ended.output)}", right, len(bad) or 1)
        return Outcome("passed", "", right)

    if not setting.tensors:
        return
    some = ["--device", "cpu", "--jobs", "1", "--direct", "add", "softmax"] if setting.dry else ["--device", "cuda", "--jobs", "4"]
    for dtype, mode in (("float32", "inference"), ("bfloat16", "inference"), ("float32", "training")):
        command = [setting.python, ROOT / "bench/conformance/opinfo.py", "--dtype", dtype, "--mode", mode, "--timeout", "60"]
        command += ["--json", "{folder}/operators.json", *some]
        yield Task(f"operators, {dtype} {mode}", "operators", command, setting.unwatched(), 150, read=read, stops=True)


def sanitizer(setting: Setting, programs: Programs) -> Iterator[Task]:
    """The tiles of the wide kernels, and attention, with races and barriers looked for."""
    if not setting.sanitizer:
        return
    for check in ("memcheck", "racecheck", "synccheck"):
        for rung in ("Products/*wide_bf16_tile", "Products/*wide_f32_slots", "Products/*wide_u8_slots", "Products/*wide_bf16_parts",
                     "Attention/*/two_blocks", "Attention/*/f32", "Products/*mma_bf16_tile"):  # fmt: skip
            for name in rungs(programs, rung):
                yield sanitized(setting, gtest(setting, "sanitizer", NINETY, name, multiprocessors=1), check)


def timings(setting: Setting, programs: Programs) -> Iterator[Task]:
    """bench/cuda.py: a process for each case and pair of peers, nothing beside it; then the bars of a machine with AMX."""

    def read(ended: Ended) -> Outcome:
        path = ended.folder / "cuda.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        peers = next(iter(found.get("cases", {}).values()), {})
        times = ", ".join(f"{peer} {e['us']:.1f} µs" if "us" in e else f"{peer} {e.get('failed', '?')[:80]}" for peer, e in peers.items())
        if ended.status != 0 or not peers:
            return Outcome("failed", times or f"{ended.how()}: {last_words(ended.output)}", failed=1, data=found)
        return Outcome("passed", times, 1, data=found)

    if setting.tensors:
        for peers in ("eager,hologram-own", "inductor,hologram,hologram-graphs"):
            for case in ["chain 1K"] if setting.dry else bench_cases():
                how = ["--dry"] if setting.dry else ["--rounds", "5"]
                some = "eager,hologram" if setting.dry else peers
                command = [setting.python, ROOT / "bench/cuda.py", "--cases", case, "--peers", some, "--out", "{folder}", *how]
                yield Task(f"{case}: {some}", "timings", command, setting.unwatched(), 60, alone=True, read=read)
            if setting.dry:
                break


def bars(setting: Setting, programs: Programs) -> Iterator[Task]:
    """bench/bars.py, on a machine whose processor has AMX."""

    def read(ended: Ended) -> Outcome:
        path = ended.folder / "bars.json"
        data = {"bars": json.loads(path.read_text())} if path.exists() else {}
        table = (ended.folder / "bars.md").read_text() if (ended.folder / "bars.md").exists() else ended.output[-4000:]
        return Outcome("passed" if data else "failed", table, int(bool(data)), int(not data), data=data)

    for part in ("products", "models", "threads") if setting.amx else ():
        command = [setting.python, ROOT / "bench/bars.py", "--quick", "--minutes", "4", "--parts", part, "--out", "{folder}"]
        yield Task(f"bars of {part}", "bars", command, {}, 300, alone=True, stops=True, read=read)


STAGES = {
    "first": first, "products": products, "attention": attention, "torch": torch, "corpus": corpus, "functions": functions,
    "operators": operators, "sanitizer": sanitizer, "timings": timings, "bars": bars,
}  # fmt: skip
