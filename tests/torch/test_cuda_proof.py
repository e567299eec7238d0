# tests/torch/test_cuda_proof.py: tests/cuda/shot.py, for a GPU, packs a build, runs it elsewhere over the emulator, finds what is planted
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from pathlib import Path

import fake_cuda
import pytest
from checks import python
from harness import BACKEND

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/cuda"
BUILD = Path(fake_cuda.LIBRARY).resolve().parents[1]


def script(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


kept = {name: sys.modules.get(name) for name in ("kernels", "runner", "pack", "tasks", "facts", "shot")}
kernels, runner, pack, tasks, facts, shot = map(script, kept)
for name, module in kept.items():  # others may have such names
    sys.modules.pop(name) if module is None else sys.modules.update({name: module})
sys.path.remove(str(FOLDER))
BUILT = BACKEND == "hologram" and all((BUILD / "tests" / name).exists() for name in (*pack.PROGRAMS, *pack.LIBRARIES))
pytestmark = pytest.mark.skipif(not BUILT, reason="no emulator, or not all test programs, in this build")


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def ran(code, **options):
    return runner.Task(options.pop("name", "a"), "stage", [sys.executable, "-c", code], **options)


def run(todo, out, seconds=60.0, jobs=2):
    done = runner.run(todo, dict(os.environ), runner.Results(out, lambda *words, **how: None), seconds=seconds, jobs=jobs)
    return {task.name: outcome for task, outcome, _ in done}


# --- packed, and run where the tree is not --------------------------------------------------------
@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A file without compression, which takes minutes, and the folder that it is unpacked to."""
    folder = tmp_path_factory.mktemp("packed")
    assembler = folder / "ptxas"
    assembler.write_text("#!/bin/sh\necho 'release 13.4, V13.4.59'\n")
    programs, python = ("test_conformance", "test_backend_cuda_90"), sysconfig.get_python_version()
    pack.pack(BUILD, folder / "shot.tar", assembler, preset=None, programs=programs, python=python)
    yield folder / "shot.tar"
    shutil.rmtree(folder, ignore_errors=True)


def test_what_is_packed_names_no_place_of_this_machine(packed):
    with tarfile.open(packed) as tar:
        members = {member.name: member for member in tar}
        assert all(member.isfile() for member in members.values())
        wanted = ["bin/ptxas", "build/release/libhologram.so.0", "build/release/tests/libspycuda.so", "packages/expecttest/__init__.py"]
        wanted += ["packages/nanobind_backend/__init__.py"]
        wanted += ["tests/cuda/shot.py", "bench/shared/zoo.py", "bench/bars.py", "build/release/python/hologram_torch/__init__.py"]
        assert not set(wanted) - set(members)
        (module,) = (name for name in members if "/_core" in name and name.endswith(".so"))
        code = tar.extractfile(module).read()
    assert b"$ORIGIN/../..\0" in code and not pack.places_of(code)
    assert pack.places_of(f"x\0{ROOT}/build/release\0y".encode()) and not pack.places_of(f"{ROOT}/src/a.cpp\0".encode())


def hidden(command, packed):
    """The command where this tree's sources and builds are not, if this machine lets us hide them."""
    covered = [ROOT / name for name in ("src", "tests", "python", "bench", "docs", "build")]
    words = "".join(f"mount -t tmpfs none '{path}' && " for path in covered)
    unshare = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
    tried = [*unshare, "mount", "-t", "tmpfs", "none", str(ROOT / "docs")]
    if BUILD.is_relative_to(ROOT) and subprocess.run(tried, capture_output=True).returncode == 0:
        return [*unshare, "sh", "-c", f'{words} exec "$@"', "sh", *map(str, command)]
    return list(map(str, command))


def shoot(packed, out, *options):
    """A process of the packed script's."""
    folder = packed.parent / "script"
    if not folder.exists():
        pack.unpack(packed, folder)
    stands_in = packed.parent / "bin"
    stands_in.mkdir(exist_ok=True)
    tool = stands_in / "compute-sanitizer"
    tool.write_text('#!/bin/sh\nshift 6; "$@"; status=$?; echo "========= ERROR SUMMARY: $(( status != 0 )) errors"; exit $status\n')
    tool.chmod(0o755)
    command = [sys.executable, folder / "tests/cuda/shot.py", "go", "--dry", "--out", out, *options]
    environment = {**os.environ, "PATH": f"{stands_in}:{os.environ['PATH']}"}
    return subprocess.Popen(hidden(command, packed), env=environment, cwd=packed.parent, stdout=subprocess.PIPE, text=True)


STEPS = "*/cuda_add_f32*,*/cuda_sum_f32*,*/chain_f32*,*/wide_bf16_tile (*,*/wide_f32_tile (*,*/block (*"


def test_a_fault_and_a_hang_take_nothing_along(packed, tmp_path):
    plants = ["--plant", "*sum_f32 (*:kernel=0", "--plant", "*wide_bf16_tile (*:hang=0"]
    stages = ["--stages", "first,products,attention", "--only", STEPS, "--jobs", "2"]
    process = shoot(packed, tmp_path, "--file", packed, *stages, *plants)
    words = process.communicate()[0]
    assert process.returncode == 1, words
    found = {line["task"].split("/")[-1]: line for line in lines_of(tmp_path / "results.jsonl")}
    states = {name: line["state"] for name, line in found.items()}
    assert [name for name, state in states.items() if state == "failed"] and states["cuda_add_f32 (driver)"] == "passed", words
    wide = {name: line for name, line in found.items() if name.startswith("wide_bf16_tile (")}
    assert wide and all("stopped after" in line["words"] and "in Products/" in line["words"] for line in wide.values()), words
    assert "error 719" in found["cuda_sum_f32 (driver)"]["words"]
    assert states["cuda_sum_f32 (driver), memcheck"] == "failed", "it runs again under the sanitizer"
    assert all(states[name] == "passed" for name in ("chain_f32 (driver)", "wide_f32_tile (driver, 1 SM)", "block (driver)"))
    told = (tmp_path / "output.txt").read_text()
    assert "where it stands" in told and "pause" in told
    told = lines_of(tmp_path / "kernels.jsonl")
    assert {line.get("error") for line in told} >= {719} and any(line.get("launched", "").endswith("hologram_wide") for line in told)
    with tarfile.open(tmp_path / "kept.tar") as tar:
        kinds = {name.split(".")[-2] for name in tar.getnames()}
        assert "ptx" in kinds and kinds <= {"ptx", "cubin"}  # machine code, too, where the library brings it
    files = list(tmp_path.rglob("*"))
    assert len(files) <= 8 and all(file.stat().st_size < 16 << 20 for file in files)
    count = [sum(line[key] for line in found.values()) for key in ("passed", "failed", "skipped")]
    last = (tmp_path / "summary.md").read_text().splitlines()[-1]
    assert last == words.strip().splitlines()[-1] == "{} passed, {} failed, {} skipped".format(*count)
    # Once more, with nothing planted: what did not pass.
    process = shoot(packed, tmp_path, *stages, "--without", tmp_path / "results.jsonl")
    words = process.communicate()[0]
    again = {line["task"].split("/")[-1]: line["state"] for line in lines_of(tmp_path / "results.jsonl")}
    assert set(again) == {name for name, state in states.items() if state == "failed" and "memcheck" not in name}, words
    assert set(again.values()) == {"passed"} and process.returncode == 0, words


# --- from the tree --------------------------------------------------------------------------------
def test_every_stage_runs_over_the_emulator(tmp_path, monkeypatch):
    python(FOLDER / "shot.py", "go", "--dry", "--build", BUILD, "--out", tmp_path, "--jobs", "2", "--minutes", "30")
    found = lines_of(tmp_path / "results.jsonl")
    stages = {"first", "tiles", "wide", "attention", "torch", "models", "corpus", "functions", "operators", "timings"}
    assert {line["stage"] for line in found} - {"sanitizer"} == stages and all(line["state"] == "passed" for line in found)
    assert next(line for line in found if line["stage"] == "timings")["data"]["cases"]["chain 1K"]["hologram"]["same"]


def test_all_tests_that_compare_results_are_chosen():
    """Of each program those of a device, by the names of their suites; nothing that asks the emulator for failures or counts."""
    setting = tasks.Setting(BUILD, fake_cuda.LIBRARY, dry=True, assemblers={"13.4.59": "a", "13.0.88": "b"}, sanitizer="tool", amx=True)
    programs = tasks.Programs(setting, dict(os.environ))
    found = {name: list(stage(setting, programs)) for name, stage in tasks.STAGES.items()}
    for suite in ("CudaWideDevice", "CudaWideTermsDevice", "CudaWidePartsDevice", "CudaPlanesDevice", "CudaKeptDevice",
                  "CudaPrecisionDevice", "Products/"):  # fmt: skip
        by = {name.partition("(")[2][:4] for task in found["products"] if (name := task.name).startswith(suite)}
        assert by == {"13.4", "13.0"}, suite
    assert any(task.name.startswith("CudaWideAttentionDevice.") for task in found["attention"])
    chosen_from_corpus = [task.name for task in found["corpus"]]
    assert sum("LeavesTheInterpretersBits/cuda_" in name for name in chosen_from_corpus) > 100
    assert not any("/interp" in name or "CudaBackend." in name or "CudaCubins." in name for name in chosen_from_corpus)
    assert {task.environment.get("HOLOGRAM_SPY_MULTIPROCESSORS") for task in found["products"]} == {None, "1", "4"}
    assert [task.name for task in found["bars"]] == ["bars of products", "bars of models", "bars of threads"]
    assert len(tasks.zoo()) == 13 and {"chain 1K", "llama decode bf16"} <= set(tasks.bench_cases())
    assert all(task.alone for stage in ("timings", "bars") for task in found[stage])


# --- single tasks ---------------------------------------------------------------------------------
def test_at_the_end_of_the_time_nothing_is_left_running(tmp_path):
    begun = time.monotonic()
    found = run([ran("import time; time.sleep(60)", name=name) for name in "abc"], tmp_path, seconds=1.5, jobs=2)
    assert time.monotonic() - begun < 20
    assert [outcome.state for outcome in found.values()] == ["cut off", "cut off", "not run"]
    assert [line["state"] for line in lines_of(tmp_path / "results.jsonl")] == ["cut off", "cut off", "not run"]


OK = "[ RUN      ] A.b\n[       OK ] A.b (3 ms)\n"


@pytest.mark.parametrize("output, status, state, counts, words", [
    (OK, 0, "passed", (1, 0, 0), ""),
    (OK + "[ RUN      ] A.c\n", -11, "failed", (1, 1, 0), "ended by SIGSEGV in A.c"),
    (OK, None, "failed", (1, 1, 0), "stopped after 3 s"),
    (OK + "[ RUN      ] A.c\n", None, "failed", (1, 1, 0), "stopped after 3 s in A.c"),
    (OK + "[ RUN      ] A.c\nx.cpp:3: Failure\nit is\n  7\n" + "[  FAILED  ] A.c, where GetParam() = 4 (5 ms)\n" + "[  FAILED  ] A.c\n",
     1, "failed", (1, 1, 0), "it is 7"),
    ("[ RUN      ] A.b\nx.cpp:9: Skipped\nno such device\n[  SKIPPED ] A.b (0 ms)\n", 0, "skipped", (0, 0, 1), "no such device"),
    ("no driver\n", 1, "failed", (0, 1, 0), "ended with status 1: no driver"),
    ("[==========] 0 tests from 0 test suites ran.\n", 0, "failed", (0, 1, 0), "0 tests"),
])  # fmt: skip
def test_programs_of_tests_are_read(output, status, state, counts, words):
    found = tasks.gtests(runner.Ended(status, output, 3.0, Path("/nowhere")))
    assert (found.state, (found.passed, found.failed, found.skipped)) == (state, counts) and words in found.words
