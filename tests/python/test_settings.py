# tests/python/test_settings.py: environment variables: one table, and what it says of wrong values and unknown names
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hologram import _core

ROOT = Path(__file__).resolve().parents[2]
ROWS = _core.settings()
SOURCES = [p for folder in ("src", "python") for p in (ROOT / folder).rglob("*.*") if p.suffix in (".cpp", ".h", ".def", ".py")]


def test_the_readme_shows_the_table():
    table = [f"| `{name}` | {values} | {default} | {meaning} |" for name, values, default, meaning in ROWS]
    shown = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `HOLOGRAM_")]
    assert shown == table


def test_nothing_reads_the_environment_beside_the_table():
    reads = re.compile(r"\bgetenv\b|\bos\.environ(\.get\b|\[| )|\bos\.getenv")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if reads.search(line) and path.relative_to(ROOT).as_posix() != "src/base/settings.cpp"
    ]
    assert len(SOURCES) > 500 and not found, "\n".join(found)
    named = set(re.findall(r'(?:text|number|seconds|list|is_on|setting)\("(HOLOGRAM_\w+)"', "".join(p.read_text() for p in SOURCES)))
    assert named == {name for name, *_ in ROWS}  # each is read, and nothing else


def run(code, **variables):
    """What a fresh process with these variables writes to standard error."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOLOGRAM_")}
    done = subprocess.run([sys.executable, "-c", code], env=clean | variables, capture_output=True, text=True)
    return done.stderr


def test_unknown_names_are_told_once_with_the_nearest():
    words = re.compile(r"""(?:environ\S*|getenv|setenv|setdefault)\W{1,3}["'](HOLOGRAM_\w+)|\$\{(HOLOGRAM_\w+):-""")
    places = [*(ROOT / "tests").rglob("*.*"), *(ROOT / "tools").glob("*.*"), *(ROOT / "bench").rglob("*.*")]
    texts = [p.read_text(encoding="utf-8") for p in places if p.suffix in (".py", ".cpp", ".h", ".sh") and p.resolve() != Path(__file__)]
    tools = {a or b for text in texts for a, b in words.findall(text)} - {name for name, *_ in ROWS}
    assert len(tools) > 10
    told = run(
        "import hologram; hologram.Executor('cpu'); hologram.Executor('cpu'); hologram._core.check_settings()",
        **{name: "x" for name in tools}, HOLOGRAM_CACHEDIR="/tmp", HOLOGRAM_NUM_THREAD="2",
    )  # fmt: skip
    lines = sorted(told.splitlines())
    assert len(lines) == 2, told
    assert "HOLOGRAM_CACHEDIR is unknown" in lines[0] and "HOLOGRAM_CACHE_DIR" in lines[0]
    assert "HOLOGRAM_NUM_THREAD is unknown" in lines[1] and "HOLOGRAM_NUM_THREADS" in lines[1]


@pytest.mark.parametrize("name, value, expected", [
    ("HOLOGRAM_STRICT", "maybe", "expected on or off"),
    ("HOLOGRAM_CUDA_SYNC", "2", "expected on or off"),
    ("HOLOGRAM_CPU_TERMS", "always", "expected measured, model or never"),
    ("HOLOGRAM_CPU_ISA", "avx", "expected sse42, avx2, avx512, amx or neon"),
    ("HOLOGRAM_CACHE_LIMIT", "1T", "expected bytes"),
    ("HOLOGRAM_POOL_LIMIT", "-1", "expected bytes"),
    ("HOLOGRAM_POOL_IDLE", "soon", "expected seconds"),
    ("HOLOGRAM_POOL_IDLE", "1e9", "expected seconds"),
    ("HOLOGRAM_NUM_THREADS", "two", "expected a whole number from 1 on"),
    ("HOLOGRAM_CUDA_BLOCK", "100", "expected a multiple of 32 from 32 to 1024"),
    ("HOLOGRAM_DUMP", "graph,pln", "expected some of fx, graph, plan"),
    ("HOLOGRAM_AUTO", "cuad", "expected some of cpu, cuda"),
    ("HOLOGRAM_LOG", "loud", "expected debug, info"),
])  # fmt: skip
def test_refused_values_are_named(monkeypatch, name, value, expected):
    monkeypatch.setenv(name, value)
    for read in (_core.check_settings, lambda: _core.setting(name), _core.Runtime):
        with pytest.raises(ValueError, match=re.escape(f"{name}={value}: {expected}")):
            read()


def test_no_off_false_and_0_are_off_everywhere(monkeypatch):
    kinds = {"on or off": False, "a path, or off": "", "bytes, perhaps with K, M or G": 0, "seconds": 0.0}
    words = {"HOLOGRAM_CPU_TERMS": "never", "HOLOGRAM_CUDA_ASSEMBLER": "driver", "HOLOGRAM_CUDA_PRODUCTS": "pytorch",
             "HOLOGRAM_WEBGPU_SUBGROUPS": "never", "HOLOGRAM_DUMP": [], "HOLOGRAM_AUTO": []}  # fmt: skip
    for name, values, *_ in ROWS:
        for off in ("no", "off", "false", "0", "OFF"):
            monkeypatch.setenv(name, off)
            assert _core.setting(name) == words.get(name, kinds.get(values)), (name, off)
        monkeypatch.setenv(name, "")
        empty = _core.setting(name)
        monkeypatch.delenv(name)
        assert empty == _core.setting(name), name
    for on in ("yes", "on", "true", "1", "True"):
        monkeypatch.setenv("HOLOGRAM_STRICT", on)
        assert _core.setting("HOLOGRAM_STRICT") is True
    with pytest.raises(KeyError):
        _core.setting("HOLOGRAM_STRICTLY")


def test_a_cache_folder_that_cannot_be_used_is_one_warning(tmp_path):
    code = """
import hologram, numpy as np, sys
f = hologram.jit(lambda x: np.tanh(x) * 3.25 - x)
g = hologram.jit(lambda x: np.sinh(x) * 7.25 - x)
x = np.ones(8, np.float32)
assert f(x)[0] == np.tanh(x[0]) * np.float32(3.25) - 1 and g(x).shape == x.shape
"""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        told = run(code, HOLOGRAM_CACHE_DIR=str(folder))
        assert told.count("\n") == 1 and f"the folder {folder} keeps no kernels: " in told and "HOLOGRAM_CACHE_DIR" in told, told
    assert run(code, HOLOGRAM_CACHE_DIR=str(tmp_path / "file"), HOLOGRAM_LOG="error") == ""
    for off in ("off", "no", str(tmp_path / "new")):
        assert run(code, HOLOGRAM_CACHE_DIR=off) == ""
    assert any((tmp_path / "new").iterdir())  # the folder is made where it can be
