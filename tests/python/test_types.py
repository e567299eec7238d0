# tests/python/test_types.py: the stubs say what the module is, and mypy agrees with the examples
import pathlib
import re
import subprocess
import sys

import pytest
from checks import load

ROOT = pathlib.Path(__file__).parents[2]
USER = '''
import hologram
import hologram_ffi
import numpy as np
from hologram import ops

with hologram.Executor(hologram.BackendType.CPU) as executor:
    a: hologram.Buffer = executor.allocate(10, np.float32)
    b = executor.from_numpy(np.ones(10))
    size: int = a.size + len(a) + a.nbytes
    total: float = ops.reduce_sum(executor, a, b)
    text: str = hologram_ffi.buffer_to_vec(executor.handle, a.handle)
    shape: tuple[int, ...] = hologram.Tensor(a, (2, 5)).T.shape
    view: memoryview = memoryview(a)
    name: str = hologram.get_default_backend()
'''
WRONG = {
    "executor.allocate('x')": "arg-type",
    "hologram.ops.vector_add(executor, executor, executor, executor)": "arg-type",
    "executor.nothing()": "attr-defined",
    "hologram_ffi.buffer_length()": "call-arg",
    "hologram.Buffer.from_numpy(3)": "call-arg|arg-type",
}


def test_users_code_checks_and_mistakes_are_found(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER + "\n".join(WRONG) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "user.py"]
    done = subprocess.run(command, capture_output=True, text=True, env={"MYPYPATH": str(ROOT / "python"), "PATH": ""}, cwd=tmp_path)
    found = {int(line): code for line, code in re.findall(r"^user.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.M)}
    first = USER.count("\n") + 1
    assert list(found) == list(range(first, first + len(WRONG))), done.stdout + done.stderr
    for code, wanted in zip(found.values(), WRONG.values(), strict=True):
        assert code in wanted.split("|"), done.stdout


def test_stubs_are_current():
    pytest.importorskip("nanobind.stubgen")
    assert load(ROOT / "tools/stubs.py").stale() == [], "run tools/stubs.py"


def test_public_names_exist():
    import hologram

    for name in hologram.__all__:
        assert getattr(hologram, name) is not None
    assert (ROOT / "python/hologram/py.typed").exists() and (ROOT / "python/hologram_ffi/py.typed").exists()
