# tests/torch/test_page.py: the page about compiled graphs, profile(), and the limits that both hold times against
import json
import re
import shutil
import time

import checks
import hologram
import numpy as np
import pytest
import torch
from harness import compile_fresh, module
from hologram import limits
from hologram.cli import main
from hologram.page import Plan, render
from hologram.page.layout import HEIGHT, WIDTH, Layout

import hologram_torch

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-headless-shell", "google-chrome"))), None)
HOSTILE = "</script><script>throw 1</script><b title=\"x\">&'"


@module(first=lambda: torch.nn.Linear(64, 128), second=lambda: torch.nn.Linear(128, 64))
def Model(self, x):
    y = torch.tanh(self.first(x)) * 2  # a line of its own
    z = torch.special.airy_ai(y)
    return torch.softmax(self.second(z) + x, -1)


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def dom_of(path) -> str:
    """What a browser makes of the page."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom", f"file://{path}"]
    return checks.run(*command, timeout=120)


@pytest.fixture(scope="module")
def explained():
    return hologram_torch.explain(Model().eval(), torch.randn(32, 64), runs=3)


# --- the page
def test_the_page_tells_kernels_buffers_and_lines(explained, tmp_path):
    explained.save(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    found = data_of(page)
    (plan,) = found["plans"]
    assert [s["name"] for s in plan["steps"]] == [k["name"] for k in explained.graphs[0].kernels()]
    assert found["left"] == {"aten.special_airy_ai.default": 1} and found["limits"]["operations"]["float32"] > 0
    tanh = next(s for s in plan["steps"] if any(name == "tanh" for name, _ in s["operations"]))
    assert any("# a line of its own" in plan["lines"][n] and "test_page.py" in plan["lines"][n] for n in tanh["lines"])
    assert any("tanh" in name for name in tanh["operators"]) and "tanh" in plan["programs"][str(tanh["program"])]
    host = next(s for s in plan["steps"] if s["kind"] == "host")
    assert any(plan["lines"][n].endswith("airy_ai(y)") for n in host["lines"])
    steps = {s["number"]: i for i, s in enumerate(plan["steps"])}
    edges = {(e["from"], e["to"]): plan["slots"][e["slot"]]["bytes"] for e in plan["edges"]}
    assert edges[steps[tanh["number"]], steps[host["number"]]] == str(32 * 128 * 4)
    assert all(s["seconds"] > 0 and s["calls"] == 3 for s in plan["steps"])
    assert all(0 < s["share"] < 3 and s["bound"] for s in plan["steps"] if s["kind"] != "host")
    assert not re.search(r"(src|href)=|url\(|https?://(?!www\.w3\.org)", page.split('id="data"')[0] + page.split("</script>", 1)[1])


def test_the_text_names_the_share_of_the_limit(explained):
    rows = [line for line in str(explained).splitlines() if " µs" in line and "%" in line]
    assert rows and "limit" in str(explained) and any(re.search(r"\d% \((arithmetic|L\d|memory)\)$", row) for row in rows)
    assert "limit" not in str(hologram_torch.explain(torch.nn.Tanh(), torch.randn(8)))


def long_plan(count: int) -> Plan:
    """Steps in a row, each of which also reads what the one eight before it wrote."""
    slots = [{"kind": "arena", "index": -1, "dtype": "f32", "shape": [n], "bytes": str(4 * n), "name": HOSTILE} for n in range(count)]
    steps = [
        {"kind": "kernel", "name": f"loop_{i} {HOSTILE}", "program": 0, "cached": False, "operations": [("add", i)], "flop": "1000",
         "bytes": "4000", "reads": [s for s in (i - 1, i - 8) if s >= 0], "writes": [i]}
        for i in range(count)
    ]  # fmt: skip
    times = [(2, 2e-6 * (i + 1), 1e-6 * (i + 1)) for i in range(count)]
    plan = {"steps": steps, "slots": slots, "arena_bytes": "100", "eager_bytes": "s0"}
    return Plan(HOSTILE, plan, times, (), [HOSTILE], {i: (HOSTILE, f"{HOSTILE}.py:{i}: {HOSTILE}") for i in range(count)}, notes=[HOSTILE])


def test_whatever_names_hold_is_text():
    page = render(HOSTILE, [long_plan(3)], None, HOSTILE, {HOSTILE: 2})
    assert HOSTILE not in page and page.count("</script>") == 2
    assert data_of(page)["title"] == HOSTILE and data_of(page)["plans"][0]["steps"][2]["name"] == f"loop_2 {HOSTILE}"


def test_no_box_meets_another_and_every_line_leads_down():
    start = time.perf_counter()
    edges = [(i - d, i) for i in range(600) for d in (1, 3, 40) if i >= d and (d == 1 or i % d == 0)]
    edges = [(a, b) for a, b in edges if b % 5 or a != b - 1]
    layout = Layout(600, edges)
    assert time.perf_counter() - start < 5
    for layer in layout.layers:
        places = sorted(layout.places[n][0] for n in layer if n < 600)
        assert all(b - a >= WIDTH for a, b in zip(places, places[1:]))
    for (a, b), route in zip(edges, layout.routes):
        assert layout.places[a][1] + HEIGHT < layout.places[b][1]
        assert all(y <= z for (_, y), (_, z) in zip(route, route[1:])) and route[-1][1] == layout.places[b][1]
    assert all(0 <= x and x + WIDTH <= layout.width for x, _ in layout.places)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian's package chromium or chromium-headless-shell)")
def test_a_browser_shows_it_without_an_error(explained, tmp_path):
    explained.save(tmp_path / "plan.html")
    dom = dom_of(tmp_path / "plan.html")
    steps = len(explained.graphs[0].kernels())
    assert f'data-ready="{steps}"' in dom and "data-error" not in dom
    table = re.search(r'<table id="table">.*?</table>', dom, re.DOTALL)[0]
    assert table.count("<tr") == steps + 1 and "of the limit" in table and "a line of its own" in table
    assert dom.count('class="node"') == steps and dom.count('class="point"') >= 2
    (tmp_path / "long.html").write_text(render(HOSTILE, [long_plan(500)], limits.measured(), HOSTILE, {HOSTILE: 2}))
    dom = dom_of(tmp_path / "long.html")
    assert 'data-ready="500"' in dom and "data-error" not in dom and dom.count('class="node"') == 500
    assert "<b title" not in dom and "loop_499 &lt;/script&gt;" in dom


# --- profile()
def test_compiled_frozen_archived_and_jitted_calls_are_profiled(tmp_path):
    model, x = Model().eval(), torch.randn(32, 64)
    small = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
    compiled, frozen = compile_fresh(model), hologram_torch.freeze(small, (torch.randn(4, 16),))
    hologram_torch.export(small, (torch.randn(4, 16),), str(tmp_path / "small.holo"))
    archive, jitted = hologram.load(tmp_path / "small.holo", trust=False), hologram.jit(lambda a: np.exp(a).sum())
    calls = [lambda: compiled(x), lambda: frozen(torch.ones(4, 16)), lambda: archive(np.ones((4, 16), "f4")), lambda: jitted(np.ones(99))]
    with torch.no_grad():
        before = [call() for call in calls]
        with hologram_torch.profile() as found:
            for call in calls:
                call()
            again = [call() for call in calls]
            with pytest.raises(RuntimeError, match="another block"), hologram_torch.profile():
                pass
        compiled(x)  # behind the block: not counted
    for a, b in zip(before, again):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert found.calls == 8
    kernels = found.kernels()
    assert {k.calls for k in kernels} == {2} and abs(sum(k.share for k in kernels) - 1) < 1e-9
    assert {k.kind for k in kernels} >= {"product", "host"} and len({k.graph for k in kernels}) == 4
    product = max((k for k in kernels if k.kind == "product"), key=lambda k: k.flop)
    assert product.flop >= 2 * 2 * 32 * 64 * 128 and product.mean >= product.least > 0 and product.of_limit > 0
    text = str(found)
    assert "GFLOP/s" in text and "8 calls of 4 graphs" in text and "(PyTorch)" in text
    check_trace(found, tmp_path)
    found.save(tmp_path / "plan.html")
    assert len(data_of((tmp_path / "plan.html").read_text())["plans"]) == 4
    with pytest.raises(ValueError, match="should end in"):
        found.save("trace.txt")


def check_trace(found, folder):
    found.save(folder / "trace.json")
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    graphs = [e for e in slices if e["cat"] == "graph"]
    assert len(graphs) == 8 and len(slices) - 8 == sum(k.calls for k in found.kernels())
    assert all(e["ts"] >= 0 and e["dur"] >= 0 and {"pid", "tid", "name"} <= e.keys() for e in slices)
    for e in slices:  # each kernel within a call
        assert any(g["ts"] <= e["ts"] and e["ts"] + e["dur"] <= g["ts"] + g["dur"] + 0.01 for g in graphs)


def test_a_size_that_varies_counts_as_called():
    frozen = compile_fresh(lambda a: torch.exp(a) * 2, dynamic=True)
    with torch.no_grad():
        frozen(torch.ones(50))
        with hologram_torch.profile() as found:
            frozen(torch.ones(100))
            frozen(torch.ones(300))
    (kernel,) = found.kernels()
    assert kernel.bytes == 2 * 4 * (100 + 300) and kernel.calls == 2


def test_explained_kernels_have_the_sizes_of_their_call():
    x = torch.ones(100)
    torch._dynamo.mark_dynamic(x, 0)
    (graph,) = hologram_torch.explain(lambda a: torch.exp(a) * 2, x, runs=2).graphs
    assert not graph.plan["steps"][0]["bytes"].isdigit()  # a symbol's
    (kernel,) = graph.kernels()
    assert kernel["bytes"] == str(2 * 4 * 100) and kernel["limit"] is not None
    with hologram_torch.profile(), pytest.raises(RuntimeError, match="another block"):
        hologram_torch.explain(torch.nn.Tanh(), torch.ones(4), runs=1)


def test_a_table_counts_by_the_rows_that_are_read():
    (graph,) = hologram_torch.explain(torch.nn.Embedding(3000, 64), torch.tensor([5, 7, 5]), runs=2).graphs
    (kernel,) = graph.kernels()
    assert kernel["bytes"] == str(3 * 8 + 2 * 3 * 64 * 4) and kernel["limit"][1] == "L1"


def test_the_command_profiles_an_archive(tmp_path, capsys):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    sizes = ({0: torch.export.Dim("rows", min=2, max=50)},)
    hologram_torch.export(model, (torch.randn(4, 16),), str(tmp_path / "m.holo"), dynamic_shapes=sizes)
    words = ["profile", str(tmp_path / "m.holo"), "--repeat", "3", "--size", "rows=20"]
    assert main([*words, "--trace", str(tmp_path / "t.json"), "--page", str(tmp_path / "p.html"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["calls"] == 3 and {k["calls"] for k in told["kernels"]} == {3}
    assert max(k["flop"] for k in told["kernels"]) >= 3 * 2 * 20 * 16 * 16
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"] and data_of((tmp_path / "p.html").read_text())["plans"]
    assert main(words) == 0 and "GB/s" in capsys.readouterr().out
    for wrong, what in ((["--size", "x=2"], "rows"), (["--repeat", "0"], "1 or more"), (["--page", "p.txt"], "should end in .html")):
        assert main([*words, *wrong]) == 1 and what in capsys.readouterr().out


# --- limits
def test_limits_are_measured_once_and_only_grow(cache, monkeypatch):
    code = "from hologram import limits; import json, dataclasses; print(json.dumps(dataclasses.asdict(limits.measured(1))))"
    run = lambda: json.loads(checks.python("-c", code))
    file = cache / "limits.json"
    file.parent.mkdir()
    before = f"{limits._processor()}, {hologram._core.host_cpu()['isa']}, 1 threads"  # kept by another way of measuring
    level = {"name": "memory", "bytes": 0, "read": 1e18, "write": 1e18, "copy": 1e18}
    file.write_text(json.dumps({before: {"processor": "", "threads": 1, "operations": {"float32": 1e18}, "levels": [level]}}))
    first = run()
    assert first["threads"] == 1 and first["processor"] and first["operations"]["float32"] > first["operations"]["float64"] * 1.5
    levels = {level["name"]: level for level in first["levels"]}
    assert list(levels)[-1] == "memory" and levels["L1"]["read"] > levels["memory"]["read"] > 1e8
    assert all(level[how] > 0 for level in first["levels"] for how in ("read", "write", "copy"))
    kept = json.loads(file.read_text())
    (key,) = kept.keys() - {before}
    assert kept[key] == first and "1 threads" in key
    kept[key]["operations"]["float32"] = 1e18  # another run's, faster
    file.write_text(json.dumps(kept))
    assert run()["operations"]["float32"] == 1e18
    monkeypatch.setattr(limits, "_kept", {})
    assert limits.measured(1, again=True).operations["float32"] == 1e18 and 1e8 < limits.memory_read(1) < 1e13
    file.write_text("[1")  # of no use: measured again
    monkeypatch.setattr(limits, "_kept", {})
    assert 0 < limits.measured(1).operations["float32"] < 1e18
    limits.forget()
    assert not file.exists()


def test_what_binds_follows_from_the_work():
    levels = (limits.Level("L1", 1000, 4e9, 3e9, 2e9), limits.Level("memory", 0, 1e9, 1e9, 1e9))
    found = limits.Limits("a processor", 2, {"float32": 1e9, "bfloat16": 4e9}, levels)
    assert found.least(1e9, 100) == (1.0, "arithmetic") and found.least(1e9, 100, "bf16") == (0.25, "arithmetic")
    assert found.least(0, 1000) == (1000 / 4e9, "L1") and found.least(10, 1e6) == (1e-3, "memory")
    assert found.least(0, 900, written=300) == (600 / 2e9 + 300 / 4e9, "L1") and found.least(0, 900, written=900) == (900 / 3e9, "L1")
    assert found.peak("i8") == 1e9 and found.peak("f64") == 1e9
