# tests/torch/test_bench.py: the benchmark harness refuses wrong values and computes right ratios
import json
import os
import sys
from pathlib import Path

import pytest
import torch
from checks import python, refuses

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import bars  # noqa: E402
import limited  # noqa: E402
import peers  # noqa: E402
import session  # noqa: E402
import worker  # noqa: E402


def test_a_wrong_value_is_refused():
    right = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    assert worker.check([right.float()], [right], 5e-5) == 0
    for wrong in (right * 1.001, right * float("nan"), right[:1]):
        refuses(peers.Unavailable, "wrong result", lambda: worker.check([wrong], [right], 5e-5))
    refuses(peers.Unavailable, "0 outputs instead of 1", lambda: worker.check([], [right], 5e-5))


def test_limits_are_of_processor_time(monkeypatch):
    assert limited.run(["sh", "-c", "sleep 1.2; echo done"], 1).stdout == "done\n"
    monkeypatch.setattr(limited, "ASLEEP", 1000)  # however busy the machine is
    with pytest.raises(limited.TookTooLong, match="no result within 1 s of processor time"):
        limited.run([sys.executable, "-c", "while True: pass"], 1)
    monkeypatch.setattr(limited, "ASLEEP", 0.3)
    refuses(limited.TookTooLong, "no result within 0 s", lambda: limited.run(["sleep", "60"], 1))


def test_the_bars_of_the_smallest_cases_are_measured(tmp_path):
    from hologram import _core

    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLOGRAM_CPU_")}
    said = python(bars.__file__, "--dry", "--parts", "products", "--out", tmp_path, timeout=1200, env=environment)
    found = json.loads((tmp_path / "bars.json").read_text())
    if _core.host_cpu()["isa"] in ("avx512", "amx"):
        assert set(found["tiles"]["cases"]) == {f"{kind} 64 x 64 x 64" for kind in ("float32", "bfloat16 given")}
        assert all(case["seconds"]["torch"] > 0 for case in found["tiles"]["cases"].values())
    lines = (tmp_path / "bars.md").read_text().splitlines()
    assert said.splitlines()[-len(lines) - 1 : -1] == lines
    if _core.host_cpu()["isa"] != "amx":
        assert "| float32 packed, up to 256 and few rows | 1.00 | n/a | n/a | n/a | n/a |" in lines


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
    refuses(session.Failed, "ValueError", lambda: session.Session("nothing", "eager", 1, str(tmp_path)))
