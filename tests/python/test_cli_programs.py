# tests/python/test_cli_programs.py: the command line on circuits, Atlas programs and graphs
import io
import json
import os
import shutil
import sys
import textwrap

import checks
import numpy as np
import pytest
from checks import python

import hologram
from hologram import cli


@pytest.fixture
def run(capfd):
    """Runs the command line in this process: (exit code, standard output)."""

    def call(*args):
        code = cli.main([str(a) for a in args])
        return code, capfd.readouterr().out

    return call


@pytest.fixture
def data(run):
    """The JSON object that a command prints when it succeeds."""

    def call(*args):
        code, out = run(*args)
        assert code == 0, out
        return json.loads(out)

    return call


@pytest.fixture
def mistake(run):
    """The error that a command prints."""

    def call(*args):
        code, out = run(*args)
        assert code == 1, out
        error = json.loads(out)["error"]
        assert set(error) == {"message", "position"}
        return error

    return call


def test_info_has_exactly_these_keys(data):
    info = data("info", "--json")
    assert set(info) == {"version", "backends", "cpu", "devices", "cache"}
    assert set(info["cpu"]) == {"isa", "processor", "features", "threads", "products"}
    assert info["backends"] == hologram._core.Runtime.backends() and info["backends"][0] == "cpu"
    for backend in info["backends"]:
        try:
            assert hologram._core.Runtime(backend).backend == backend
        except RuntimeError as error:  # of the build, not of this machine
            assert backend == "cuda" and "NVIDIA" in str(error)
    assert info["cpu"]["isa"] in ("sse42", "avx2", "avx512", "amx", "neon") and info["cpu"]["features"]


# --- sigmatics


def test_texts_come_from_standard_input(monkeypatch, data, mistake):
    def give(content):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    give("mark@c21 // é\n".encode())
    assert data("sigmatics", "eval", "--json", "-")["bytes"] == [0x2A]
    give(b"")
    assert mistake("sigmatics", "eval", "--json", "-")["position"] == 0
    give("// é\n\xff".encode("latin-1").replace(b"\xe9", "é".encode()))
    assert mistake("sigmatics", "eval", "--json", "-") == {"message": "the text is not UTF-8", "position": 5}


def test_output_is_utf_8_whatever_the_locale():
    said = python("-m", "hologram", "sigmatics", "eval", "--json", "R+1@mark@c0", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert json.loads(said)["words"][0] == "→ρ[1]"


def test_address_and_bytes(data, mistake, run):
    assert data("sigmatics", "address", "17", "46", "--json") == {"address": 4398}
    assert "Page index 48" in mistake("sigmatics", "address", "48", "0", "--json")["message"]
    assert "must be an integer" in mistake("sigmatics", "address", "x", "0", "--json")["message"]
    assert data("sigmatics", "bytes", "--json", "mark@c1 . mark@c2") == {"bytes": [2, 4]}
    assert run("sigmatics", "bytes", "mark@c21") == (0, "0x2A\n")
    assert mistake("sigmatics", "eval", "mark@c96")["position"] == 5, "without --json too"
    assert data("sigmatics", "canon", "--expression", "--json", "R+1@mark@c1") == {"canonical_text": "mark@c25"}


def test_explain(run, mistake):
    code, out = run("sigmatics", "explain", "mark@c42^+3~@17")
    assert code == 0 and out.startswith("Expression: mark@c42^+3~@17\n\nLiteral Backend (Bytes):\n  0x5A\n  Addresses: 4442\n")
    code, out = run("sigmatics", "explain", "quote@c3 . copy@c1->c3")
    assert code == 0 and "Quoted and never evaluated: c03" in out
    assert "UnexpectedToken" in mistake("sigmatics", "explain", "mark@c1 . ->")["message"]


def test_run(data, mistake, tmp_path):
    memory = np.random.default_rng(1).standard_normal((96, 3072)).astype(np.float32)
    np.save(tmp_path / "in.npy", memory)
    files = ("--in", tmp_path / "in.npy", "--out", tmp_path / "out.npy", "--backend", "interp")
    done = data("sigmatics", "run", "--json", "copy@c1->c2 . quote@c4 . copy@c2->c4", *files)
    assert done == {"ok": True, "backend": "interp", "steps": ["copy@c01->c02"], "unevaluated": [4], "recorded": ["copy@c02->c04"]}
    memory[2] = memory[1]
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), memory)
    np.save(tmp_path / "in.npy", np.zeros(5))
    assert "class memory" in mistake("sigmatics", "run", "--json", "mark@c1", "--in", tmp_path / "in.npy")["message"]


# --- atlas

LANES = """
    atlas lane 1
      mov_imm.u64 r1, 1
      mov_imm.u64 r2, 4
      mul.u64 r2, r2, r255
      ldg.f32 r3, [r1 + r2]
      add.f32 r3, r3, r3
      mov_imm.u64 r1, 2
      stg.f32 [r1 + r2], r3
"""
SUMS = """
    atlas block 1
    symbols 1
    buffer b0 f32 read [s0]
    buffer b1 f32 read [s0]
    buffer b2 f32 write [s0]
    loop parallel 1 lane i0
    axis i0 parallel [s0]
    stage point
      %0 = load.f32 b0[i0]
      %1 = load.f32 b1[i0]
      %2 = add.f32 %0, %1
      store.f32 b2[i0], %2
"""


@pytest.fixture
def program(tmp_path):
    def write(text, name="program.txt"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text).lstrip())
        return path

    return write


def test_atlas_forms(data, run, mistake, program, tmp_path):
    for text in (LANES, SUMS):
        source, binary = program(text), tmp_path / "program.bin"
        assert data("atlas", "verify", source)["ok"] is True
        assert data("atlas", "asm", source, "-o", binary)["bytes"] == binary.stat().st_size
        assert data("atlas", "verify", binary)["ok"] is True
        code, out = run("atlas", "disasm", binary)
        assert code == 0
        again = tmp_path / "again.txt"
        again.write_text(out)
        data("atlas", "asm", again, "-o", tmp_path / "again.bin")
        assert (tmp_path / "again.bin").read_bytes() == binary.read_bytes()
    broken = binary.read_bytes()[:-1]
    (tmp_path / "broken.bin").write_bytes(broken)
    mistake("atlas", "verify", tmp_path / "broken.bin")
    wrong = mistake("atlas", "verify", program("atlas lane 1\n  mov_imm.u64 r1, 3\n  frobnicate.i32 r0\n"))
    assert "line 3, column 3" in wrong["message"] and wrong["position"] == 35
    assert "UninitializedRegister" in mistake("atlas", "verify", program("atlas lane 1\n  add.i32 r0, r1, r2\n"))["message"]
    mistake("atlas", "verify", tmp_path / "absent")


@pytest.mark.parametrize("backend", ["cpu", "interp", "null"])
def test_atlas_runs_programs_on_named_buffers(data, program, tmp_path, backend):
    x, y = np.arange(10, dtype=np.float32), np.full(10, 0.5, np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    out = tmp_path / "z.npy"
    done = data("atlas", "run", program(SUMS), "--backend", backend, "--in", f"b0={tmp_path}/x.npy", "--in", f"b1={tmp_path}/y.npy",
                "--out", f"b2={out}")  # fmt: skip
    assert done["ok"] is True and done["outputs"]["b2"]["shape"] == [10]
    np.testing.assert_array_equal(np.load(out), x + y)
    data("atlas", "run", program(LANES), "--backend", backend, "--in", f"buf1={tmp_path}/x.npy", "--zeros", "buf2=f32:10",
         "--out", f"buf2={out}", "--grid", "2", "--block", "5")  # fmt: skip
    np.testing.assert_array_equal(np.load(out), x + x)


def test_atlas_run_gives_the_launch_a_boundary_pool(data, program, tmp_path):
    text = "atlas lane 1\n  mov_imm.f32 r1, 1065353216\n  stg.f32 [phi(2, 0, 4)], r1\n"
    text += "  cvt.f64.f32 r2, r1\n  cls.get r3\n  res.accum r3, r2\n"
    out = tmp_path / "pool.npy"
    done = data("atlas", "run", program(text), "--boundary", "--out", f"boundary={out}", "--block", "2")
    assert done["resonance"] == {"0": 2.0}
    pool = np.load(out)
    assert pool[2, 1] == 1 and pool.sum() == 1


def test_atlas_run_reports_mistakes(mistake, program, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(10, np.float32))
    np.save(tmp_path / "d.npy", np.zeros(10))
    x = f"b0={tmp_path}/x.npy"
    sums = program(SUMS)
    assert "reads buffer 'b1'" in mistake("atlas", "run", sums, "--in", x)["message"]
    assert "s0" in mistake("atlas", "run", sums)["message"]
    assert "no buffer 'b9'" in mistake("atlas", "run", sums, "--in", x, "--out", "b9=o.npy")["message"]
    assert "float64" in mistake("atlas", "run", sums, "--in", x, "--in", f"b1={tmp_path}/d.npy")["message"]
    short = mistake("atlas", "run", sums, "--in", x, "--in", f"b1={tmp_path}/x.npy", "--symbol", "s0=11")["message"]
    assert "44 bytes" in short
    lanes = program(LANES)
    assert mistake("atlas", "run", lanes, "--zeros", "buf1=f32:1")["message"].startswith("InvalidBufferHandle")
    assert "without gaps" in mistake("atlas", "run", lanes, "--zeros", "buf2=f32:1")["message"]
    assert "NAME=VALUE" in mistake("atlas", "run", lanes, "--in", "buf1")["message"]


# --- graphs

GRAPH = """
    graph(symbols=1, parameters=2)
    %0: f32[s0, 4] = parameter index=0 strides=[4, 1]
    %1: f32[s0, 4] = parameter index=1 strides=[4, 1]
    %2: f32[s0, 4] = neg %1
    %3: f32[s0, 4] = add %0, %2
    %4: f32[s0] = reduce_sum %3 axes=[1]
    return %4 strides=[1]
"""


def test_graphs(data, run, mistake, program):
    path = program(GRAPH)
    canonical = data("graph", "canon", "--json", path)
    assert (canonical["original_ops"], canonical["canonical_ops"], canonical["rules"]) == (3, 2, {"add_neg": 1})
    code, out = run("graph", "canon", path)
    assert code == 0 and " sub %" in out
    assert data("graph", "canon", "--json", program(out, "again.txt"))["fingerprint"] == canonical["fingerprint"]
    compiled = data("graph", "compile", "--json", "--stage", "atlas", path)
    assert compiled["kernels"] == len(compiled["texts"]) == 1 and compiled["texts"][0].startswith("atlas block 1")
    assert data("graph", "explain", "--json", "--backend", "interp", path)["ops_canonical"] == 2
    code, out = run("graph", "explain", path)
    assert code == 0 and "operations 3 -> 2 -> 1 kernels" in out and "add_neg" in out
    wrong = mistake("graph", "canon", program("graph(symbols=0, parameters=0)\n%0: f32[4] = nonsense\n"))
    assert wrong["position"] is not None and "line 2" in wrong["message"]


# --- bench


def test_bench(data, mistake):
    measured = data("bench", "--json", "--elements", "4096", "--rounds", "3")
    assert set(measured["limits"]) == {"copy_gb_per_s", "fma_gflop_per_s"} and measured["threads"] >= 1
    for limit in measured["limits"].values():
        assert limit["one"] > 0 and limit["all"] > 0
    assert measured["call"]["nanoseconds"] > 0 and 0 < measured["product"]["of_fma"]
    assert set(measured["operations"]) == {"add", "mul", "exp", "tanh"}
    for row in measured["operations"].values():
        assert row["times_numpy"] > 0 and row["of_copy"] > 0 and row["times_one_thread"] > 0
    assert "at least 1" in mistake("bench", "--json", "--rounds", "0")["message"]


# --- completion


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["hologram", "sig"], ["sigmatics"]),
        (["hologram", "atlas", ""], ["verify", "asm", "disasm", "run"]),
        (["hologram", "graph", "compile", "--stage", "a"], ["atlas", "asm"]),
        (["hologram", "atlas", "run", "--gr"], ["--grid"]),
        (["hologram", "completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_completion_knows_what_may_follow(run, words, expected):
    code, out = run("__complete", len(words) - 1, *words)
    assert code == 0 and out.split() == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run, shell):
    code, out = run("completion", shell)
    assert code == 0 and "hologram __complete" in out
    if shell == "bash" and shutil.which("bash"):
        script = f'hologram() {{ "{sys.executable}" -m hologram "$@"; }}\n{out}\n'
        script += 'COMP_WORDS=(hologram sigmatics e); COMP_CWORD=2; _hologram; echo "${COMPREPLY[@]}"'
        assert checks.run("bash", "-c", script).split() == ["eval", "explain"]
