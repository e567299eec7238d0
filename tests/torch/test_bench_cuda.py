# tests/torch/test_bench_cuda.py: the benchmark of GPUs runs over the emulator, and its bars say what they should
import json
import os
import sys
from pathlib import Path

import fake_cuda
import pytest
from checks import load, python
from harness import BACKEND

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.append(str(BENCH))
import cuda_cases  # noqa: E402

cuda = load(BENCH / "cuda.py", "bench_cuda")  # `cuda` is a package's name


def test_the_bars_of_a_gpu_are_held_against_the_best_of_ours():
    case = cuda_cases.Case("c", None, at_least=2.0, error=1.5)
    ours = {"same": True, "wrong": False, "error": 1.0}
    entries = {"eager": {"us": 100.0}, "hologram": {"us": 90.0, **ours}, "hologram-own": {"us": 40.0, **ours}}
    assert cuda.verdict(case, entries) == ("hologram-own", 2.5, True)
    entries["hologram-own"]["error"] = 2.0
    assert cuda.verdict(case, entries) == ("hologram-own", 2.5, False)
    assert cuda.verdict(case, {"hologram": {"us": 30.0, **ours}}) == ("hologram", None, None)
    assert cuda.verdict(case, {"hologram": {"failed": "so"}}) == (None, None, None)
    least = cuda_cases.Case("l", None, at_most=35)
    assert cuda.verdict(least, entries) == ("hologram-own", 40.0, False)
    entries["hologram-own"]["us"] = 35.0
    assert cuda.verdict(least, entries)[2] and "| ≤ 35 µs | 35.00 | yes |" in cuda.table({"l": entries}, {"l": least}, False)
    entries["hologram-own"]["same"] = False
    assert not cuda.verdict(least, entries)[2]


def test_a_case_of_a_gpu_runs_over_the_emulator(tmp_path):
    if BACKEND != "hologram" or not os.path.exists(fake_cuda.LIBRARY):
        pytest.skip("no emulator in this build")
    arguments = ["--dry", "--cases", "product 1024", "--peers", "eager,hologram", "--out", tmp_path]
    python(cuda.__file__, *arguments, env=os.environ | {"HOLOGRAM_CUDA_DRIVER": fake_cuda.LIBRARY})
    found = json.loads((tmp_path / "cuda.json").read_text())["cases"]
    entries = found["product 1024"]
    assert entries["hologram"]["host_runs"] == 0 and entries["hologram"]["same"] and not entries["hologram"]["wrong"]
    assert "product 1024" in (tmp_path / "cuda.md").read_text()
