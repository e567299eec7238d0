# tests/python/test_compiler_library.py: libhologram is without LLVM, and opens what has it when something is compiled
"""What compiles is a library of its own, which takes longer to load than all else: who compiles nothing is spared it."""

import os
import subprocess
import sys
from pathlib import Path

import checks
import pytest

from hologram import _core

BUILD = Path(_core.__file__).resolve().parents[2]
LIBRARY, COMPILER = BUILD / "libhologram.so.0", BUILD / "libhologram_compiler.so.0"

pytestmark = pytest.mark.skipif(not LIBRARY.exists() or sys.platform != "linux", reason="needs a build tree and /proc")

PROGRAM = """
import numpy as np
import hologram
from hologram._jit import Jitted

def opened():
    with open("/proc/self/maps") as file:
        return "libhologram_compiler" in file.read()

x = np.linspace(-1, 1, 600, dtype=np.float32).reshape(20, 30)
function = Jitted(lambda x: np.tanh(x @ x.T).sum(axis=0), False, False, quickly=True)
first = function(x)
assert np.allclose(first, np.tanh(x @ x.T).sum(axis=0), atol=1e-4)
with hologram.Executor("cpu") as executor:
    pass
assert not opened()
for _ in range(2):  # what failed is tried again
    try:
        function.finish()
        print(opened())
    except RuntimeError as error:
        print(error)
assert np.array_equal(function(x), first)
"""


def run(cache, **environment):
    return checks.python("-c", PROGRAM, env=os.environ | {"HOLOGRAM_CACHE_DIR": str(cache)} | environment).splitlines()


def test_llvm_is_in_the_compiler_alone():
    here, there = (checks.run("nm", path).count("4llvm") for path in (LIBRARY, COMPILER))
    assert here == 0 and there > 10_000


def test_it_is_opened_by_what_is_compiled(tmp_path):
    assert run(tmp_path / "cold") == ["True"] * 2
    assert run(tmp_path / "cold") == ["False"] * 2  # kernels that were kept need no compiler


def test_without_it_first_results_are_there_and_errors_name_it(tmp_path):
    (tmp_path / LIBRARY.name).symlink_to(LIBRARY)
    missing = run(tmp_path / "cache", LD_LIBRARY_PATH=str(tmp_path))
    assert len(missing) == 2 and set(missing) == {
        f"nothing can be compiled: {tmp_path}/{COMPILER.name}: cannot open shared object file: No such file or directory"}  # fmt: skip
    (tmp_path / COMPILER.name).symlink_to(LIBRARY)
    other = run(tmp_path / "cache", LD_LIBRARY_PATH=str(tmp_path))
    assert set(other) == {f"nothing can be compiled: {tmp_path}/{COMPILER.name} is of another build than libhologram"}


def test_without_it_a_file_runs_and_the_log_says_what_is_slow(tmp_path):
    onnx = pytest.importorskip("onnx")
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [20, 30]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["x"], ["y"])], "tanh", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "tanh.onnx")
    (tmp_path / LIBRARY.name).symlink_to(LIBRARY)
    program = """
import sys, numpy as np, hologram
x = np.linspace(-1, 1, 600, dtype=np.float32).reshape(20, 30)
assert np.allclose(hologram.from_onnx(sys.argv[1])(x), np.tanh(x), atol=1e-6)"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "tanh.onnx")], capture_output=True, text=True,
                          env=os.environ | {"HOLOGRAM_CACHE_DIR": str(tmp_path / "cache"), "LD_LIBRARY_PATH": str(tmp_path)})  # fmt: skip
    assert done.returncode == 0 and "stays at its first kernels" in done.stderr and COMPILER.name in done.stderr, done.stderr
