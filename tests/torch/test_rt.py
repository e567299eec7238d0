# tests/torch/test_rt.py: libhologram_rt, which runs archives' machine code without the compiler
import json
import os
import re
import shutil
from pathlib import Path

import hologram
import hologram_torch
import numpy as np
import pytest
import torch
from archived import LEVEL, Counter, Small
from checks import python, run
from hologram import _core
from harness import compile_fresh
from torch.export import Dim
from zoo import ZOO

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(_core.__file__).resolve().parents[2]
LIBRARY, WHOLE = BUILD / "libhologram_rt.so.0", BUILD / "libhologram.so.0"
MOST_BYTES = 3_500_000

pytestmark = pytest.mark.skipif("HOLOGRAM_SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text(),
                                reason="needs a build without sanitizers")  # fmt: skip


def call(folder, path, fingerprint, inputs, method="forward", calls=None, library=LIBRARY, **variables):
    """What rt_call.py printed, and the results."""
    np.savez(folder / "inputs.npz", *inputs)
    arguments = [library, path, fingerprint, method, folder / "inputs.npz", folder / "outputs.npz", *([calls] if calls else [])]
    environment = {"PATH": os.environ["PATH"], "HOLOGRAM_CACHE_DIR": str(folder / "cache"), "HOLOGRAM_TRUSTED": "off"}
    said = json.loads(python(Path(__file__).with_name("rt_call.py"), *arguments, env=environment | variables))
    if said["error"]:
        return said, None
    with np.load(folder / "outputs.npz") as file:
        return said, [file[name] for name in file.files]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("rt") / "model.holo"
    rows = {0: Dim("rows", min=2, max=100)}
    return path, hologram_torch.export(Small().eval(), (torch.randn(3, 32),), path, dynamic_shapes=(rows,), isas=[LEVEL]).fingerprint


def test_is_small_and_holds_no_compiler(tmp_path):
    stripped = tmp_path / "stripped.so"
    run("strip", LIBRARY, "-o", stripped)
    assert stripped.stat().st_size <= MOST_BYTES
    names = run("nm", "-C", LIBRARY)
    assert "hologram::archive::Function::run" in names
    for absent in ("llvm::", "hologram::canon::", "hologram::schedule::make_plan", "hologram::cpu::compile("):
        assert absent not in names
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", LIBRARY))
    assert not [name for name in needed if not re.match(r"lib(c|m|dl|pthread|stdc\+\+|gcc_s)\.so|ld-linux", name)]


def test_exports_what_its_list_says():
    listed = set(re.findall(r"^ +(hologram_\w+);", (ROOT / "src/rt/exports.map").read_text(), re.M))
    rows = [line.split() for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()]
    assert {name.split("@")[0] for *_, kind, name in rows if kind != "A"} == listed
    assert listed < set((ROOT / "tests/capi/exports.txt").read_text().split())
    assert {"hologram_archive_open_memory", "hologram_executable_run", "hologram_tensor_to_dlpack"} <= listed


@pytest.mark.parametrize("name", ["mlp", "resnet", "lstm"])
def test_same_bits_as_the_whole_library_and_torch_compile(name, tmp_path):
    case = ZOO[name]()
    path = tmp_path / "model.holo"
    report = hologram_torch.export(case.module, case.inputs, path, isas=[LEVEL])
    with torch.no_grad():
        expected = [t.numpy() for t in torch.utils._pytree.tree_leaves(compile_fresh(case.module, dynamic=False)(*case.inputs))
                    if isinstance(t, torch.Tensor)]  # fmt: skip
    inputs = [t.numpy() for t in torch.utils._pytree.tree_leaves(case.inputs) if isinstance(t, torch.Tensor)]
    said, results = call(tmp_path, path, report.fingerprint, inputs)
    assert said == {"needs": ["libhologram_rt.so.0.1.0"], "error": None}
    whole, same = call(tmp_path, path, report.fingerprint, inputs, library=WHOLE)
    assert whole["needs"] == ["libhologram.so.0.1.0"]
    for got, other, wanted in zip(results, same, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(got, other)


def test_sizes_that_calls_choose_and_views(exported, tmp_path):
    path, fingerprint = exported
    for rows in (2, 100):
        x = np.random.default_rng(rows).normal(size=(rows, 32)).astype(np.float32)
        expected = hologram.load(path, trust=True)(x)
        np.testing.assert_array_equal(call(tmp_path, path, fingerprint, [x])[1][0], expected)
        transposed = np.asfortranarray(x)
        np.testing.assert_array_equal(call(tmp_path, path, fingerprint, [transposed])[1][0], expected)
    said, _ = call(tmp_path, path, fingerprint, [np.zeros((101, 32), np.float32)])
    assert "size rows is 101" in said["error"]


def test_state_belongs_to_a_session(tmp_path):
    path, x = tmp_path / "counter.holo", np.ones((3, 2), np.float32)
    fingerprint = hologram_torch.export(Counter(), (torch.from_numpy(x),), path, isas=[LEVEL]).fingerprint
    np.testing.assert_array_equal(call(tmp_path, path, fingerprint, [x], calls=3)[1][0], 3 * x)
    assert "needs a session" in call(tmp_path, path, fingerprint, [x])[0]["error"]


def test_says_why_an_archive_cannot_run(exported, tmp_path):
    path, fingerprint = exported
    x = [np.ones((3, 32), np.float32)]
    assert "the archive is not trusted" in call(tmp_path, path, "-", x)[0]["error"]
    assert f"its fingerprint is {fingerprint}" in call(tmp_path, path, "0" * 64, x)[0]["error"]
    if LEVEL != "sse42":
        error = call(tmp_path, path, fingerprint, x, HOLOGRAM_CPU_ISA="sse42")[0]["error"]
        assert re.search(r'none for this machine, "cpu sse42 .*; it has code for: "cpu', error)
    without = tmp_path / "without.holo"
    report = hologram_torch.export(Small().eval(), (torch.ones(3, 32),), without, isas=())
    assert "it has code for: none" in call(tmp_path, without, report.fingerprint, x)[0]["error"]


def test_a_c_program_needs_nothing_else(tmp_path):
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    report = hologram_torch.export(model, (x,), tmp_path / "model.holo")
    run(compiler, "-std=c99", "-Wall", "-Werror", f"-I{ROOT / 'include'}", ROOT / "examples/run_archive.c", "-o", tmp_path / "program",
           LIBRARY, f"-Wl,-rpath,{BUILD}")  # fmt: skip
    assert "libhologram.so" not in run("readelf", "-dW", tmp_path / "program")
    with torch.no_grad():
        expected = "".join("{:g} {:g}\n".format(*row) for row in compile_fresh(model)(x).tolist())
    assert run(tmp_path / "program", tmp_path / "model.holo", report.fingerprint) == expected
