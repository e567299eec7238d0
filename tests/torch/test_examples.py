# tests/torch/test_examples.py: the Python programs of examples/ run
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "python"
PROGRAMS = sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_example_runs(name, tmp_path):
    env = dict(os.environ, HOLOGRAM_STRICT="1", HOLOGRAM_CACHE_DIR=str(tmp_path / "cache"))
    done = subprocess.run([sys.executable, FOLDER / name], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout


def test_there_are_examples():
    known = "buffers character_gpt compile_model custom_operator export_model freeze_model jit train train_numpy"
    assert {f"{name}.py" for name in known.split()} <= set(PROGRAMS)
