# tests/torch/test_examples.py: the Python programs of examples/ run
import os
import subprocess
import sys
from pathlib import Path

import forks
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "python"
PROGRAMS = {path.name: path for path in sorted(FOLDER.glob("*.py"))}
ARGUMENTS = {"character_gpt.py": ["12"]}  # steps


@pytest.mark.parametrize("name", PROGRAMS)
def test_example_runs(name, tmp_path):
    env = dict(os.environ, HOLOGRAM_STRICT="1", HOLOGRAM_CACHE_DIR=str(tmp_path / "cache"))
    path, arguments = PROGRAMS[name], ARGUMENTS.get(name, [])
    if "import torch" in path.read_text(encoding="utf-8"):
        program = f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
        done = forks.run(program, *arguments, cwd=tmp_path, env=env)
    else:  # without PyTorch
        done = subprocess.run([sys.executable, path, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout


def test_there_are_examples():
    known = "buffers character_gpt compile_model custom_operator export_model freeze_model jit train train_numpy"
    assert {f"{name}.py" for name in known.split()} <= set(PROGRAMS)
