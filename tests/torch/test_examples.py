# tests/torch/test_examples.py: the Python programs of examples/ run, tutorials in their short form
import importlib
import os
import subprocess
import sys
from pathlib import Path

import forks
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAMS = {path.name: path for path in sorted((EXAMPLES / "python").glob("*.py"))}
TRAINING = EXAMPLES / "training"
TUTORIALS = {  # what they print that the table does not tell
    "character_gpt.py": "Tid",
    "cnn.py": "of digits it has not seen",
    "custom_operator.py": "['example.rms_norm.default', 'example.rms_norm.default']",
    "ddp.py": "both processes have the same weights",
    "digits.py": "of digits it has not seen",
    "minilm.py": "kept titles are nearer",
    "mixed_precision.py": "Hologram float16",
    "numpy_only.py": "of digits it has not seen",
}


def run(path, *arguments, cwd, before="", **more):
    env = dict(os.environ, HOLOGRAM_STRICT="1", HOLOGRAM_CACHE_DIR=str(cwd / "cache"), **more)
    env["PYTHONPATH"] = os.pathsep.join([str(path.parent), *filter(None, [env.get("PYTHONPATH")])])
    if "import torch" in path.read_text(encoding="utf-8"):
        program = f"{before}import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
        done = forks.run(program, *arguments, cwd=cwd, env=env)
    else:  # without PyTorch
        done = subprocess.run([sys.executable, path, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_example_runs(name, tmp_path):
    assert run(PROGRAMS[name], cwd=tmp_path)


@pytest.fixture
def beside(monkeypatch):
    for package in ("matplotlib", "rich", "sklearn"):
        pytest.importorskip(package)
    monkeypatch.syspath_prepend(TRAINING)
    return importlib.import_module("beside")


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorial_trains_as_eager(name, tmp_path, beside):
    """It ends with an error where its losses are not eager's."""
    pictures = ["--pictures", "drawn"] if name == "mixed_precision.py" else ["--no-pictures"]
    one = "import torch; torch.set_num_threads(1); "  # eager's threads, waiting for each other, take the time of other tests
    said = run(TRAINING / name, "--short", *pictures, cwd=tmp_path, before=one, RANDOM="1")  # no real weights
    assert TUTORIALS[name] in said and "operators left to PyTorch: none" in said and "Hologram" in said
    if pictures[1:]:
        drawn = {f"loss-{style}.{kind}" for style in ("light", "dark") for kind in ("svg", "png")}
        assert {path.name for path in (tmp_path / "drawn").iterdir()} == drawn


def test_tutorial_has_the_same_bits_whatever_the_threads(tmp_path, beside):
    assert run(TRAINING / "digits.py", "--short", "--check", cwd=tmp_path).splitlines()[-1] == "the same bits"


def test_there_are_examples():
    known = "buffers compile_model export_model freeze_model jit train"
    assert {f"{name}.py" for name in known.split()} <= set(PROGRAMS)
    assert {path.name for path in TRAINING.glob("*.py")} == {"beside.py", *TUTORIALS}
