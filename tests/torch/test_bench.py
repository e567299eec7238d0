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
import architecture_list  # noqa: E402
import architectures  # noqa: E402
import bare_tiles  # noqa: E402
import bars  # noqa: E402
import cases  # noqa: E402
import dashboard  # noqa: E402
import dashboard_models  # noqa: E402
import limited  # noqa: E402
import limits  # noqa: E402
import peers  # noqa: E402
import products  # noqa: E402
import report  # noqa: E402
import scaling  # noqa: E402
import session  # noqa: E402
import tiles  # noqa: E402
import turns  # noqa: E402
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
    with pytest.raises(limited.TookTooLong, match="no result within 1 s of processor time"):
        limited.run([sys.executable, "-c", "while True: pass"], 1)
    monkeypatch.setattr(limited, "ASLEEP", 0.3)
    with pytest.raises(limited.TookTooLong, match="no result within 0 s"):
        limited.run(["sleep", "60"], 1)


def test_ratios_are_taken_within_a_round():
    slow, fast = rounds(2.0, 20.0, 2.0), rounds(1.0, 10.0, 1.0)
    assert report.ratio(slow, fast) == 2.0
    assert report.fastest_ratio(slow, fast) == 2.0
    assert report.ratio(slow, {"failed": "reason"}) is None


def test_short_calls_are_compared_with_torch_compile_only():
    long = {"eager": rounds(3e-3), "onnxruntime": rounds(1e-3), "hologram": rounds(5e-4)}
    assert report.best_peer(long) == "onnxruntime"
    short = {"eager": rounds(3e-5), "onnxruntime": rounds(1e-5), "hologram": rounds(5e-6)}
    assert report.best_peer(short) == "eager"
    found = report.speedups({"cases": {"c": {"peers": short}}})
    assert found == {"c": ("eager", pytest.approx(6.0))}


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


def test_the_limit_of_a_case_is_its_arithmetic_or_its_traffic():
    import hologram_torch
    from hologram.limits import Level, Limits

    weights = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64, bias=False)).eval()
    work = limits.work_of(hologram_torch.explain(weights, torch.randn(32, 64)).graphs)
    assert work["bytes"] == 4 * (2 * 32 * 64 + 2 * 64 * 64 + 64) and set(work["flop"]) == {"f32"}
    assert 2 * 2 * 32 * 64 * 64 <= work["flop"]["f32"] < 1.2 * 2 * 2 * 32 * 64 * 64
    machine = Limits("p", 2, {"float32": 1e12}, (Level("L1", 1 << 20, 1e12, 1e12, 1e12),))
    assert limits.least_seconds(work, machine) == (work["flop"]["f32"] / 1e12, "arithmetic")
    assert limits.least_seconds({"flop": {"f32": 1}, "bytes": 1000}, machine) == (1e-9, "L1")


def test_slower_than_before_means_by_medians_and_by_fastest_blocks():
    old, disturbed = rounds(1.0, 1.0, 1.0), {"rounds": [{"median": m, "min": 0.9, "calls": 1} for m in (2.0, 2.0, 1.0)]}
    peers = {"same": old, "disturbed": disturbed, "slower": rounds(1.03, 1.03, 1.03)}
    results = {"cases": {name: {"peers": {"hologram": r, "before": rounds(1.0, 1.0, 1.0)}} for name, r in peers.items()}}
    results["cases"]["frozen"] = {"peers": {"frozen": rounds(1.2), "frozen_before": rounds(1.0), "hologram": {"failed": "x"}}}
    assert report.slower(results, 0.02) == [("slower", "hologram", pytest.approx(1.03)), ("frozen", "frozen", pytest.approx(1.2))]
    assert report.best_peer({"hologram": old, "before": rounds(0.5), "eager": rounds(2.0)}) == "eager"


def test_sizes_in_names():
    assert [cases.count(text) for text in ("16", "10K", "1M")] == [16, 10_000, 1_000_000]
    assert [case.name for case in cases.select(["chain-1*", "chain-300"])] == [
        "chain-1K", "chain-10K", "chain-100K", "chain-1M", "chain-10M", "chain-300",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no case is called 'nothing'"):
        cases.find("nothing")


def test_gains_are_over_the_fewest_threads():
    results = {
        1: {"eager": rounds(8.0), "hologram": rounds(6.0)},
        16: {"eager": rounds(2.0), "hologram": rounds(0.5), "onnxruntime": {"failed": "x"}},
    }
    assert scaling.gain(results, 16, "hologram") == 12 and scaling.gain(results, 16, "onnxruntime") is None
    lines = scaling.table({"a": results}, ["eager", "onnxruntime", "hologram"]).splitlines()
    assert lines[3] == "| a | 16 | 2.00 s (4.00) | n/a | 500 ms (12.00) | 4.00 (eager) |"
    assert scaling.thread_counts(1) == [1] and scaling.thread_counts(12) == [1, 2, 4, 8, 12]
    assert scaling.installed(["eager", "hologram"]) == ["eager", "hologram"]


def test_variants_are_compiled_for_what_they_say_and_wrong_ones_refused(capsys, monkeypatch):
    from hologram import _core
    from hologram_torch import runtimes

    if _core.host_cpu()["isa"] in ("sse42", "neon"):
        pytest.skip("no AVX2")
    monkeypatch.setenv("HOLOGRAM_STRICT", "1")
    monkeypatch.delenv("HOLOGRAM_CPU_MODEL", raising=False)
    before = runtimes.runtime()
    with tiles.variant({"HOLOGRAM_CPU_ISA": "avx2", "HOLOGRAM_CPU_MODEL": "granite-rapids"}):
        assert runtimes.runtime() is not before and _core.host_cpu()["processor"] == "granite-rapids"
    assert "HOLOGRAM_CPU_MODEL" not in os.environ and runtimes.runtime() is not before
    variants = {"first": {"HOLOGRAM_CPU_ISA": "avx2"}, "second": {"HOLOGRAM_CPU_ISA": "sse42"}}
    assert tiles.measure("float32", lambda: products.linear(33, 40, 48), variants, 0.01)
    assert "second/first" in capsys.readouterr().out
    wrong = lambda: (*products.linear(33, 40, 48)[:2], lambda x: torch.ones(33, 40, dtype=torch.float64))  # noqa: E731
    assert not tiles.measure("float32", wrong, variants, 0.01)
    assert "wrong" in capsys.readouterr().out


def test_bars_are_held_against_the_worst_case_of_each():
    def case(torch, fma, default):
        return {"subject": "tiles", "ratios": {w: [0, r, 9] for w, r in (("torch", torch), ("fma", fma), ("default", default))}}

    found = {
        "float32 512 x 512 x 512": case(1.8, 1.5, 1.0), "float32 1024 x 1536 x 384": case(1.2, 1.1, 1.2),
        "float32 64 x 64 x 64": case(2.0, 1.0, 1.0), "float32 given 512 x 512 x 512": case(3.0, 1.0, 2.0),
        "bfloat16 attention causal 8 x 12 x 12 x 128 x 128 x 32": case(1.3, 2.0, 1.0),
        "bfloat16 attention plain 1 x 12 x 12 x 1 x 1024 x 64": case(1.5, 1.0, 1.0),
        "bytes given 256 x 256 x 256": {},
    }  # fmt: skip
    model = {
        "default": {"eager": rounds(4.0), "openvino": rounds(3.0), "hologram": rounds(1.5)},
        "tiles": {"hologram": rounds(1.0), "eager": rounds(4.0), "openvino": rounds(3.0)},
        "avx512": {"hologram": rounds(1.2)},
    }
    results = {
        "tiles": {"cases": found, "shares": {"float32 512": {"tiles": 0.5, "sums": 0.25}}},
        "models": {"minilm-8x128": model},
        "threads": {"mlp-64": {"2": {"hologram": rounds(2.0)}, "8": {"hologram": rounds(0.5)}, "16": {"hologram": rounds(0.8)}}},
    }
    values = {what: row for what, *row in bars.rows(results)}
    assert values["float32 packed, 512 to 4096 and transformers'"] == [1.5, 1.0, 1.2, pytest.approx(1.1 / 1.2)]
    assert values["float32 given, from 512"][1:] == [1.5, 3.0, 0.5]
    assert values["bfloat16 attention"][1:3] == [1.3, 1.3] and values["bfloat16 attention, decode"][1] == 1.5
    assert values["bytes given"][1:] == [None, None, None]
    assert values["minilm-8x128, over the best peer"] == [1.6, 2.0, 3.0, pytest.approx(0.8)]
    assert values["mlp-64, 2 to 16 threads"][:2] == [4.0, 2.5]
    assert values["mlp-64, no step to more threads slower"][1] == pytest.approx(0.625)
    text = bars.table(results)
    assert "| bytes given | 1.00 | n/a | n/a | n/a | n/a |" in text and "float32 512: tiles 0.50, sums 0.25" in text
    assert "| minilm-8x128, over the best peer | 1.60 | 2.00 | 3.00 | 0.80 | no |" in text


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


def test_shares_of_a_products_time_are_measured(monkeypatch, capsys):
    monkeypatch.setattr(tiles, "TILES", {})
    monkeypatch.setattr(bare_tiles.BareLoop, "__init__", lambda self: None)
    monkeypatch.setattr(bare_tiles.BareLoop, "seconds", lambda self, threads: 1e-9)
    found = tiles.share(tiles.shared_product("float32", products.linear, products.given, 32, 48, 64), 1, 0.01)
    assert set(found) == {"tiles", "sums", "depth", "packing"} and all(0 <= part for part in found.values())
    assert "shares float32 32 x 48 x 64: tiles" in capsys.readouterr().out
    for case in (
        tiles.shared_attention("bfloat16", torch.bfloat16, 1, 2, 1, 40, 48, 16),
        tiles.shared_convolution("float32", torch.float32, 1, 4, 8, 10),
    ):
        found = tiles.share(case, 1, 0.01)
        assert set(found) == {"tiles", "sums", "depth"} and case.products > 0
    names = [case.name for case in tiles.shared_cases()]
    assert len(names) == len(set(names)) and "bfloat16 convolution 8 x 64 x 56 x 56 to 128" in names


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


def test_an_architecture_is_compared():
    pytest.importorskip("transformers")
    row = architectures.measure("qwen3", architecture_list.architectures("transformers")["qwen3"], False, 0.05)
    assert row["right"] and row["difference"] < 1e-5 and row["fallback"] == [] and row["error"] is None and row["ratio"] > 0


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


def test_an_architecture_that_fails_when_compiled_is_wrong():
    class Fails(torch.nn.Module):
        def forward(self, x):
            if torch.compiler.is_compiling():
                return x.reshape(7, 7)
            return x + 1

    row = architectures.measure("fails", lambda: (Fails(), (torch.ones(3),), {}), False, 0.01)
    assert not row["right"] and row["error"]


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


def test_gradients_of_attention_are_compared_and_refused(capsys):
    case = products.attention_gradients("causal", torch.float32, 1, 2, 1, 16, 16, 8)
    function, gradients, exact = case
    with torch._functorch.config.patch(donated_buffer=False):
        assert products.measure_gradients("right", case, 1.0, 0.01)
        wrong = (function, gradients, lambda: [2 * g for g in exact()])
        assert not products.measure_gradients("off", wrong, 1.0, 0.01)
    assert "ratio" in (out := capsys.readouterr().out) and "wrong" in out


def test_turns_pair_what_followed_each_other():
    # The machine took twice as long in the second turn; the second peer is the better one in most.
    taken = turns.Turns({"ours": [1.0, 2.0, 1.0], "a": [3.0, 6.0, 3.0], "b": [2.0, 4.0, 9.0]})
    assert taken.fastest() == {"ours": 1.0, "a": 3.0, "b": 2.0}
    assert taken.median(["a", "b"], "ours") == 2.0
    assert taken.ratio(["a"], "ours") == "3.00 (3.00…3.00)" and taken.ratio([], "ours") == ""


# --- PyTorch's dashboard
def dashboard_row(**changed):
    return {"passed": True, "speedup": 2.0, "first": 3.0, "memory": 1.5, "difference": 1e-6} | changed


def test_the_dashboard_counts_what_passes_and_means_over_it():
    rows = {"timm/a/hologram": dashboard_row(), "timm/b/hologram": dashboard_row(speedup=0.5, first=1.0),
            "timm/c/hologram": dashboard_row(passed=False, speedup=99.0), "timm/d/hologram": {"passed": False, "failed": "why"},
            "timm/a/inductor": dashboard_row(speedup=4.0)}  # fmt: skip
    lines = dashboard.table(rows, ["hologram", "inductor"], ["huggingface", "timm"]).splitlines()
    cells = {tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]}
    assert ("passed", "hologram", "n/a", "2 of 4") in cells and ("passed", "inductor", "n/a", "1 of 1") in cells
    assert ("geometric mean of speed-ups", "hologram", "n/a", "1.00×") in cells
    assert ("mean seconds of the first call", "hologram", "n/a", "2.00") in cells
    assert ("eager's peak memory over the compiler's", "hologram", "n/a", "1.50") in cells


def test_the_dashboard_knows_its_lists_and_measures_models(monkeypatch):
    found = {suite: len(models) for suite, models in dashboard_models.SUITES.items()}
    assert found == {"huggingface": 55, "timm": 18}
    pytest.importorskip("transformers")
    options = types.SimpleNamespace(size="small", batch=0, threads=2, seconds=0.02, training=False)
    torch._dynamo.reset()
    row = dashboard.measure("huggingface", "DistilBertForMaskedLM", "hologram", options)
    assert row["passed"] and row["speedup"] > 0 and row["first"] > 0 and row["memory"] > 0 and row["fallback"] == []
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU()), torch.randn(4, 8)
    monkeypatch.setattr(dashboard_models, "build", lambda *_: (model, (x,), {}))
    options.training = True
    assert dashboard.measure("timm", "any", "hologram", options)["passed"]
