# tests/torch/test_bench.py: the benchmark harness refuses wrong values and computes right ratios
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import architectures  # noqa: E402
import bars  # noqa: E402
import cases  # noqa: E402
import limited  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
import session  # noqa: E402
import tiles  # noqa: E402
import worker  # noqa: E402


def rounds(*medians):
    return {"rounds": [{"median": m, "min": 0.9 * m, "calls": 1} for m in medians]}


def test_a_wrong_value_is_refused():
    right = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    assert worker.check([right.float()], [right], 5e-5) == 0
    for wrong in (right * 1.001, right * float("nan"), right[:1]):
        with pytest.raises(peers.Unavailable, match="wrong result"):
            worker.check([wrong], [right], 5e-5)
    with pytest.raises(peers.Unavailable, match="0 outputs instead of 1"):
        worker.check([], [right], 5e-5)


def test_limits_are_of_processor_time(monkeypatch):
    assert limited.run(["sh", "-c", "sleep 1.2; echo done"], 1).stdout == "done\n"
    monkeypatch.setattr(limited, "ASLEEP", 1000)  # however busy the machine is
    with pytest.raises(limited.TookTooLong, match="no result within 1 s of processor time"):
        limited.run([sys.executable, "-c", "while True: pass"], 1)
    monkeypatch.setattr(limited, "ASLEEP", 0.3)
    with pytest.raises(limited.TookTooLong, match="no result within 0 s"):
        limited.run(["sleep", "60"], 1)


def test_the_table_for_people():
    peers = {"eager": rounds(3e-5), "inductor": rounds(4e-5), "onnxruntime": rounds(1e-5), "hologram": rounds(1.5e-5)}
    results = {
        "machine": {"cpu": "C", "cores": 2, "versions": {"torch": "2.15"}},
        "threads": 2,
        "peers": list(peers),
        "cases": {"a": {"barred": True, "peers": peers}, "b": {"barred": True, "peers": peers}},
    }
    assert report.markdown(results, {"a": "addition", "b": ""}).splitlines() == [
        "| case | eager | Inductor | ONNX Runtime | Hologram | against the best |",
        "| --- | --- | --- | --- | --- | --- |",
        "| addition | 30.0 µs | 40.0 µs | 10.0 µs | 15.0 µs | 2.00× (eager) |",
        "",
        "Geometric mean of 2 cases: 2.00×.",
        "",
        "C, 2 cores, 2 threads; torch 2.15.",
    ]
    results["cases"]["a"]["limit"] = {"seconds": 0.9 * 1.2e-5, "bound": "L2"}
    assert report.markdown(results, {"a": "addition"}).splitlines()[2].endswith("| 2.00× (eager) | 80 % (L2) |")


def test_slower_than_before_means_by_medians_and_by_fastest_blocks():
    old, disturbed = rounds(1.0, 1.0, 1.0), {"rounds": [{"median": m, "min": 0.9, "calls": 1} for m in (2.0, 2.0, 1.0)]}
    peers = {"same": old, "disturbed": disturbed, "slower": rounds(1.03, 1.03, 1.03)}
    results = {"cases": {name: {"peers": {"hologram": r, "before": rounds(1.0, 1.0, 1.0)}} for name, r in peers.items()}}
    results["cases"]["frozen"] = {"peers": {"frozen": rounds(1.2), "frozen_before": rounds(1.0), "hologram": {"failed": "x"}}}
    assert report.slower(results, 0.02) == [("slower", "hologram", pytest.approx(1.03)), ("frozen", "frozen", pytest.approx(1.2))]
    assert report.best_peer({"hologram": old, "before": rounds(0.5), "eager": rounds(2.0)}) == "eager"


def test_the_bars_of_the_smallest_cases_are_measured(tmp_path):
    from hologram import _core

    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLOGRAM_CPU_")}
    command = [sys.executable, bars.__file__, "--dry", "--parts", "products", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "bars.json").read_text())
    if _core.host_cpu()["isa"] in ("avx512", "amx"):
        assert set(found["tiles"]["cases"]) == {f"{kind} 64 x 64 x 64" for kind in ("float32", "bfloat16 given")}
        assert all(case["seconds"]["torch"] > 0 for case in found["tiles"]["cases"].values())
    lines = (tmp_path / "bars.md").read_text().splitlines()
    assert done.stdout.splitlines()[-len(lines) - 1 : -1] == lines
    if _core.host_cpu()["isa"] != "amx":
        assert "| float32 packed, up to 256 and few rows | 1.00 | n/a | n/a | n/a | n/a |" in lines


def test_every_bar_has_cases():
    names = [name for name, _ in tiles.all_cases()]
    for bar in bars.PRODUCTS:
        assert any(re.match(bar.pattern, name) for name in names), bar.what
    for name in [*bars.MODEL_BARS, *bars.SCALING_BARS]:
        assert cases.find(name).name == name


def test_a_session_times_eager(tmp_path):
    run = session.Session("chain-64", "eager", 1, str(tmp_path))
    try:
        assert run.first["error"] <= 1e-6
        for _ in range(2):
            timed = run.ask(0.01)
            assert 0 < timed["min"] <= timed["median"]
        assert run.ask(0.01, latencies=True)["calls"] >= 100
    finally:
        run.close()
    with pytest.raises(session.Failed, match="ValueError"):
        session.Session("nothing", "eager", 1, str(tmp_path))


def test_the_difference_of_architectures_counts_nan_shapes_and_what_is_nearly_zero():
    big, small = torch.tensor([2.0, 4.0]), torch.tensor([1e-9])
    assert architectures.difference([big, small], [big, small]) == 0
    assert architectures.difference([big + 0.4, small], [big, small]) == pytest.approx(0.1)
    assert architectures.difference([big, 2 * small], [big, small]) == pytest.approx(1e-9 / 4e-4)
    assert architectures.difference([big * float("nan"), small], [big, small]) == float("inf")
    assert architectures.difference([big], [big, small]) == float("inf")


def test_a_step_is_right_where_it_is_no_further_from_the_truth_than_some_of_eagers():
    truth, nan = [torch.tensor([3.0, 4.0], dtype=torch.float64)], [torch.full((2,), float("nan"))]

    def times(ours, *theirs):
        left = iter([[t + error for t in truth] for error in theirs])
        return architectures.times_eagers([t + ours for t in truth], truth, left), len(list(left))

    assert times(1e-4, 0.0, 0.0) == (0.0, 1)
    assert times(0.03, 0.02, 0.5) == (pytest.approx(1.5), 1) and times(0.03, 1e-5, 0.015, 1.0) == (pytest.approx(2.0), 1)
    assert times(0.03, 1e-5, 0.001) == (pytest.approx(30), 0) and times(nan[0], 0.1)[0] == float("inf")
    assert times(0.03, 0.001, nan[0], 1e-4) == (pytest.approx(30), 0)
    ulp = architectures.moved(0)(torch.full((1000,), 1.5)) - 1.5
    assert set(ulp.tolist()) == {0.0, -(2.0**-23), 2.0**-23}


class Scaled(torch.nn.Module):
    """Compiled, it gives `factor` times what eager does, or rounds to `factor` times the unit `rough` in float32; with `batch` it trains,
    on two images alone."""

    def __init__(self, factor, rough, batch):
        super().__init__()
        self.layer, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.factor, self.rough, self.batch = factor, rough, batch

    def forward(self, x):
        if self.training and (self.batch is False or len(x) != 2):
            raise ValueError("no training")
        y = self.norm(self.layer(x)).sigmoid()
        factor = self.factor if torch.compiler.is_compiling() else 1
        shift = self.rough * factor * 2.0**23
        return ((y + shift) - shift).square() if self.rough else y * factor


@pytest.mark.parametrize(
    "factor, rough, batch, right",
    [(1, 0, True, True), (1, 0, False, True), (1.002, 0, True, False), (2, 2.0**-8, True, True), (8, 2.0**-8, True, False)],
)
def test_a_training_step_is_compared(factor, rough, batch, right):
    """With float64 where float32 differs."""
    row = architectures.measure("scaled", lambda: (Scaled(factor, rough, batch), (torch.rand(1, 3, 6, 6),), {}), True, 0.01)
    assert row["right"] is right and row["error"] is None and ("times" in row) is (factor != 1)
    assert row["mode"] == ("training" if batch else "evaluation")
    assert (row["times"] == pytest.approx(factor, rel=0.5)) if rough else row["difference"] == pytest.approx(factor - 1, abs=5e-4)


def run_alone(monkeypatch, tmp_path, program, limit=60.0):
    """The row of an architecture whose process runs `program` instead."""
    script = tmp_path / "program.py"
    script.write_text(program)
    monkeypatch.setattr(architectures, "__file__", str(script))
    return architectures.alone("timm:x", types.SimpleNamespace(threads=1, seconds=0.1, train=False, limit=limit))


def test_an_architecture_that_ends_its_process_costs_that_one_only(monkeypatch, tmp_path, capsys):
    crashed = run_alone(monkeypatch, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    late = run_alone(monkeypatch, tmp_path, "import time; time.sleep(60)", limit=0.05)
    fine = dict(name="y", difference=1e-6, error=None, compile=900.0, graphs=1, fallback=[], right=True)
    fine |= dict(first=2.0, ours=2e-3, eager=1e-3, ratio=0.5)
    assert run_alone(monkeypatch, tmp_path, f"import json; print(json.dumps({fine!r}))") == fine
    assert crashed["crashed"] and "exit status -11" in crashed["failed"] and "within" in late["failed"]
    assert architectures.summary([crashed, late, fine]) == 1
    assert architectures.summary([late, fine]) == 0
    out = capsys.readouterr().out
    assert "slower than eager: 1" in out and "without a result: 2" in out and "1 architectures, 1 right" in out
