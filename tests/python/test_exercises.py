# tests/python/test_exercises.py: what it takes to add an operator and a backend, carried out on a copy of the tree
"""tests/data/sinc.patch adds an operator and tests/data/empty_backend.patch a backend; small programs of the copy use them. With
HOLOGRAM_EXERCISES=1 the copy's Python module is built as well: torch.sinc is compiled by it, and an Executor asks for the
backend; that takes as long as building the library does."""

import math
import os
import re
import shutil
import sys
from pathlib import Path

import checks
import pytest

ROOT = Path(__file__).parents[2]
OPERATOR, BACKEND = (ROOT / "tests" / "data" / name for name in ("sinc.patch", "empty_backend.patch"))
OPERATOR_PROGRAM = """
#include <cstdio>
#include "math/native.h"
#include "support/functions.h"
int main() {
  using namespace hologram;
  ir::Op op = *ir::op_from_name("sinc");
  for (float x = -9.875f; x < 10; x += 0.25f) {
    float y = atlas::math::evaluate(op, std::span<const float>(&x, 1))[0];
    std::printf("%a %a %a %g\\n", double{x}, double{y}, test::reference(op, double{x}), ir::info(op).ulp32);
  }
}
"""
BACKEND_PROGRAM = """
#include <cstdio>
#include "backend/registry.h"
#include "base/error.h"
int main() {
  const hologram::RegisteredBackend* found = hologram::find_backend("empty");
  std::printf("%s %d ", hologram::backend_names().c_str(), found ? found->device_count() : -1);
  try {
    hologram::make_backend("empty");
  } catch (const hologram::Error& e) {
    std::printf("%s", e.what());
  }
}
"""
PYTHON_PROGRAM = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__name__.startswith("ScikitBuild")]
import hologram, hologram.special, hologram_torch, numpy as np, torch
x = torch.linspace(-3, 3, 101)
got = torch.compile(torch.sinc, backend=hologram_torch.hologram)(x)
torch.testing.assert_close(got, torch.sinc(x), rtol=2e-6, atol=2e-7)
assert hologram_torch.stats()["fallback_ops"] == {} and hologram_torch.stats()["failed_graphs"] == 0
a = x.numpy()
for function in (hologram.special.sinc, hologram.jit(lambda x: np.sinc(x)), hologram.jit(lambda x: np.sinc(-x))):
    np.testing.assert_allclose(function(a), np.sinc(a), rtol=2e-6, atol=2e-7)
assert "empty" in hologram._core.Runtime.backends()
try:
    hologram.Executor("empty")
except Exception as error:
    print(error)
print(hologram._core.__file__)
"""


def run(command, folder, **environment):
    return checks.run(*command, cwd=folder, env=os.environ | environment)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The tree without what is built, with operator and backend added."""
    if shutil.which("patch") is None:
        pytest.skip("needs patch")
    folder = tmp_path_factory.mktemp("exercise") / "tree"
    skipped = shutil.ignore_patterns("build", "build-*", ".git", ".venv", "__pycache__", "*.so", ".cache", "dist")
    shutil.copytree(ROOT, folder, ignore=skipped)
    for patch in (OPERATOR, BACKEND):
        run(["patch", "-p1", "-i", str(patch)], folder)
    return folder


def built(copy, program, sources, flags):
    """What a program of the copy prints: its text, and the files that it needs."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    (copy / "tests" / "exercise.cpp").write_text(program)
    launcher = [shutil.which("ccache")] if shutil.which("ccache") else []
    objects = []
    for source in ("tests/exercise.cpp", *sources):
        objects.append(source.replace("/", "_") + ".o")
        run([*launcher, compiler, "-std=c++20", "-O1", "-Isrc", "-Itests", "-I.", *flags, "-c", source, "-o", objects[-1]], copy)
    run([compiler, *objects, "-o", "exercise"], copy)
    return run(["./exercise"], copy)


def touched(patch):
    return sorted(re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.M))


def test_an_operator_is_a_row_a_sequence_and_a_reference():
    files = touched(OPERATOR)
    assert len(files) == 3
    assert files[0].startswith("src/atlas/math/") and files[1:] == ["src/ir/ops.def", "tests/support/functions.def"]


def test_the_operator_evaluates_to_its_reference(copy):
    sources = ("tests/math/native.cpp", "src/ir/op.cpp")
    rows = [line.split() for line in built(copy, OPERATOR_PROGRAM, sources, ["-ffp-contract=off"]).splitlines()]
    assert len(rows) == 80
    for x, y, exact, bound in rows:
        x, y, exact = (float.fromhex(v) for v in (x, y, exact))
        ulp = 2.0 ** (math.frexp(exact)[1] - 24)
        assert abs(y - exact) <= float(bound) * ulp, (x, y, exact)
    torch = pytest.importorskip("torch")
    xs = torch.tensor([float.fromhex(row[0]) for row in rows])
    ours = torch.tensor([float.fromhex(row[1]) for row in rows])
    torch.testing.assert_close(ours, torch.sinc(xs), rtol=2e-6, atol=2e-7)


def test_a_kind_of_block_is_its_own_files_and_the_table():
    atlas = ROOT / "src" / "atlas"
    table = (atlas / "program.h").read_text()
    kinds = re.search(r"using Block =\s*std::variant<([^>]*)>", table).group(1).replace(",", " ").split()
    assert len(kinds) >= 5
    headers = "".join(p.read_text() for p in (atlas / "blocks").glob("*.h"))
    words = [re.search(rf'struct Form<{kind}> {{.*?name = "(\w+)"', headers, re.S).group(1) for kind in kinds]
    assert f"enum class BlockKind : uint8_t {{ {', '.join(words)} }}" in table
    naming = re.compile("|".join([*kinds, *(f"BlockKind::{word}" for word in words)]))
    elsewhere = [p for p in atlas.rglob("*") if p.suffix in (".h", ".cpp") and p.parent.name != "blocks" and p.name != "program.h"]
    assert [p.name for p in elsewhere if naming.search(p.read_text())] == []


def test_a_backend_is_a_folder_and_a_word():
    assert {str(Path(name).parent) for name in touched(BACKEND) if name != "CMakeLists.txt"} == {"src/backend/empty"}
    lines = re.findall(r"^[-+](?!--|\+\+)(.*)$", BACKEND.read_text().partition("--- /dev/null")[0], re.M)
    before, after = (line.strip("()").split() for line in lines)
    assert [word for word in after if word.strip(")") not in {w.strip(")") for w in before}] == ["empty"]


def test_the_registry_knows_the_backend(copy):
    (copy / "backend").mkdir(exist_ok=True)
    (copy / "backend" / "backends.inc").write_text("HOLOGRAM_BACKEND(empty)\n")  # as CMake writes it
    names = ("backend/registry", "backend/table", "backend/empty/backend", "base/settings", "base/notices")
    sources = [f"src/{name}.cpp" for name in names]
    printed = built(copy, BACKEND_PROGRAM, sources, ["-DFMT_HEADER_ONLY"])
    assert printed.startswith("empty 0 ") and "finds no device" in printed


@pytest.mark.skipif(os.environ.get("HOLOGRAM_EXERCISES") != "1", reason="builds the library: HOLOGRAM_EXERCISES=1")
def test_the_library_knows_both(copy):
    pytest.importorskip("torch")
    run(["cmake", "--preset", "release", f"-DPython_EXECUTABLE={sys.executable}", "-DHOLOGRAM_TESTS=OFF"], copy)
    run(["cmake", "--build", "build/release", "--target", "_core"], copy)
    printed = run([sys.executable, "-c", PYTHON_PROGRAM], copy, PYTHONPATH=str(copy / "build/release/python"))
    assert str(copy) in printed and "finds no device" in printed
