# tests/torch/test_cuda_proof.py: tests/cuda/run.py, which is for a GPU, runs every part over the emulator and finds planted faults
import importlib.util
import json
import os
import sys
from pathlib import Path

import fake_cuda
import pytest
from harness import BACKEND

FOLDER = Path(__file__).resolve().parents[1] / "cuda"
pytestmark = pytest.mark.skipif(BACKEND != "hologram" or not os.path.exists(fake_cuda.LIBRARY), reason="no emulator in this build")


def script(name):
    spec = importlib.util.spec_from_file_location(f"cuda_proof_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


proof = script("run")
BUILD = Path(fake_cuda.LIBRARY).resolve().parents[1]
PASSES = "import sys; print('ran', *sys.argv[1:])"


def results_of(names, out, **options):
    """(status, what results.json has of the parts)"""
    status = proof.run(names, **{"dry": True, "minutes": 30.0, "build": BUILD, "out": out, **options})
    return status, json.loads((out / "results.json").read_text())["parts"]


def part(*steps):
    return {"part": (1, lambda setting: steps)}


def step(name, code, **options):
    return proof.Step(name, [sys.executable, "-c", code], **options)


@pytest.mark.parametrize("name", [name for name in proof.PARTS if name != "sanitizer"])
def test_every_part_runs_over_the_emulator(name, tmp_path):
    status, parts = results_of([name], tmp_path)
    assert status == 0 and parts[name]["state"] == "passed", parts[name]["words"]
    assert all(os.path.getsize(step["log"]) and step["seconds"] < step["limit"] for step in parts[name]["steps"])


def test_the_sanitizer_part_takes_the_tool_of_the_path(tmp_path, monkeypatch):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text('#!/bin/sh\n[ "$2" != "$PLANTED" ] || exit 99\nshift 4; "$@"; echo "========= ERROR SUMMARY: 0 errors"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PLANTED", "racecheck")
    status, parts = results_of(["sanitizer"], tmp_path)
    steps = parts["sanitizer"]["steps"]
    assert status == 1 and [s["state"] for s in steps] == ["passed", "failed", "passed"]
    assert steps[0]["words"] == "1 tests passed, 0 skipped; ERROR SUMMARY: 0 errors"


def test_without_its_tool_or_a_driver_a_part_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for home in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(home, raising=False)
    monkeypatch.setattr(proof, "probe", lambda environment, dry: {"device": "a device"})
    monkeypatch.setattr(proof.Path, "exists", lambda path: path.name != "compute-sanitizer" and os.path.exists(path))
    status, parts = results_of(["sanitizer"], tmp_path)
    assert status == 1 and parts["sanitizer"]["state"] == "not run" and "no compute-sanitizer" in parts["sanitizer"]["words"]
    monkeypatch.undo()
    for driver, why in (("/nowhere/libcuda.so.1", "no NVIDIA driver"), (fake_cuda.LIBRARY, "is the emulator of the tests")):
        monkeypatch.setenv("HOLOGRAM_CUDA_DRIVER", driver)
        status, parts = results_of(["corpus", "bench"], tmp_path, dry=False)
        assert status == 1 and [p["state"] for p in parts.values()] == ["not run"] * 2
        assert why in parts["bench"]["words"] and not parts["corpus"]["steps"]


def test_a_step_that_fails_or_never_ends_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "probe", lambda environment, dry: {"device": "a device"})
    status, parts = results_of(["part"], tmp_path, parts=part(step("a", PASSES), step("b", "raise SystemExit('wrong')")))
    assert status == 1 and parts["part"]["state"] == "failed" and parts["part"]["words"] == "a: ran; b: wrong"
    sleeper = "subprocess.Popen(['sleep', '60'], start_new_session=True, stdout=subprocess.DEVNULL).pid"
    slow = f"import subprocess, time; print({sleeper}, flush=True); time.sleep(60)"
    for stops, state, wanted in ((False, "failed", 1), (True, "cut off", 0)):
        steps = step("fine", PASSES), step("slow", slow, stops=stops)
        status, parts = results_of(["part"], tmp_path, parts=part(*steps), minutes=1 / 30)
        assert parts["part"]["state"] == state and parts["part"]["seconds"] < 20
        assert [s["state"] for s in parts["part"]["steps"]] == ["passed", state]
        left = Path("/proc", Path(parts["part"]["steps"][1]["log"]).read_text().strip(), "stat")
        assert not left.exists() or left.read_text().split()[2] == "Z", "its processes end with it"
        assert (status == 1) == (wanted == 1 or state != "passed")


def test_a_function_that_differs_in_one_input_is_found(monkeypatch):
    functions = script("functions")
    compute = functions.Side.results

    class Wrong(functions.Side):
        """tanh of 0x3f000100 is the number beside, and a NaN another."""

        def results(self, f, start, step, count):
            out = compute(self, f, start, step, count)
            if f.full in ("tanh f32", "log f32"):
                bits = out.to_numpy(copy=True)
                for place in range(count):
                    x = start + step * place
                    if f.name == "tanh" and x == 0x3F000100 or f.name == "log" and x == 0xBF000100:
                        bits[place] ^= 1
                out = self.executor.from_numpy(bits)
            return out

    chosen = functions.functions(["f32", "f16"], ["tanh", "log", "abs", "cast_i8"])
    assert [f.full for f in chosen] == [f"{n} {t}" for t in ("f32", "f16") for n in ("abs", "log", "tanh", "cast_i8")]
    monkeypatch.setattr(functions, "compare", _from(functions.compare, 0x3F000100, 1 << 20))
    found = functions.sweep(chosen, functions.Side("cpu"), Wrong("cpu"), count=4096, seconds=60, blocks=2)
    bad = {name: entry for name, entry in found.items() if "differ" in entry}
    assert list(bad) == ["tanh f32"], "a NaN is like another"
    entry = bad["tanh f32"]
    assert entry["input"] == "0x3f000100" and entry["differ"] == 1 and int(entry["cpu"], 16) ^ 1 == int(entry["device"], 16)


def _from(compare, number, step):
    """compare() with blocks of 32 bits that meet the number."""

    def run(f, cpu, device, start, every, count):
        return compare(f, cpu, device, number % step if f.type == "f32" else start, step if f.type == "f32" else every, count)

    return run
