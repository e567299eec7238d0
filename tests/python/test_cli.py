# tests/python/test_cli.py: the command line
import json
import os
import subprocess
import sys


def run(*args, **env):
    return subprocess.run([sys.executable, "-m", "hologram", *args], env=dict(os.environ, **env), capture_output=True, text=True)


def test_cache_can_be_looked_at_and_emptied(tmp_path):
    folder = tmp_path / "cache"
    code = (
        "from hologram import _core as c; g = c.Graph(); x = g.parameter(0, 'f32', [8], [1]);"
        "g.output(g.elementwise('add', [x, x]), [1]); c.compile(g, c.Runtime('cpu'))"
    )
    subprocess.run([sys.executable, "-c", code], env=dict(os.environ, HOLOGRAM_CACHE_DIR=str(folder)), check=True)
    info = json.loads(run("cache", "info", "--json", HOLOGRAM_CACHE_DIR=str(folder)).stdout)
    assert info["entries"] >= 1 and info["bytes"] > 0 and info["problem"] == ""
    removed = json.loads(run("cache", "clear", "--json", HOLOGRAM_CACHE_DIR=str(folder)).stdout)
    assert removed == {"removed": info["entries"]}
    assert json.loads(run("cache", "info", "--json", HOLOGRAM_CACHE_DIR=str(folder)).stdout)["entries"] == 0


def test_a_wrong_instruction_set_is_an_error_not_a_crash():
    done = run("info", "--json", HOLOGRAM_CPU_ISA="abacus")
    assert done.returncode == 1
    assert "abacus" in json.loads(done.stdout)["error"]["message"]


def test_bad_usage_exits_with_two():
    done = run("nonsense")
    assert done.returncode == 2 and "__" not in done.stderr
    for words, wanted in (((), "sigmatics"), (("cache",), "clear")):
        done = run(*words)
        assert done.returncode == 2 and done.stdout == "" and wanted in done.stderr, "the whole help"


def test_info_reads_well():
    done = run("info")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert done.returncode == 0 and list(lines) == ["version", "backends", "cpu", "devices", "cache"]
    assert not set("[]{}'") & set(done.stdout)


def test_a_missing_file_is_named(tmp_path):
    done = run("graph", "canon", str(tmp_path / "absent"), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["message"] == f"{tmp_path / 'absent'}: No such file or directory"
