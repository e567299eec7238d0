# tests/python/test_daily.py: the commands of the daily round (tools/daily.sh), and that the Makefile has them
import os
import re
import subprocess
from pathlib import Path

import pytest
from checks import run

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import hologram, numpy as np
hologram.jit(lambda x: np.exp(x).sum(axis=1))(np.ones((8, 64), np.float32))
"""


def daily(*arguments):
    return subprocess.run(["tools/daily.sh", *arguments], cwd=ROOT, capture_output=True, text=True)


def test_show_writes_what_the_compiler_makes(tmp_path):
    if not os.path.exists(ROOT / ".venv/bin/python"):
        pytest.skip("needs the environment that make builds")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = daily("show", str(tmp_path / "program.py"), "plan,atlas")
    assert done.returncode == 0, done.stderr
    files = re.findall(r"build/show/(\S+)", done.stdout)
    assert any(name.endswith(".plan.txt") for name in files) and any(name.endswith(".atlas.txt") for name in files)
    assert any("exp.f32" in (ROOT / "build/show" / name).read_text() for name in files)


@pytest.mark.parametrize("arguments, said", [
    (("one", "nothing"), "which test?"),
    (("show", "nowhere.py"), "which program?"),
    (("compare", "no-such-commit"), "no commit 'no-such-commit'"),
    ((), "usage:"),
])  # fmt: skip
def test_wrong_words_are_told(arguments, said):
    done = daily(*arguments)
    assert done.returncode != 0 and said in done.stderr


def test_the_makefile_has_them():
    shown = run("make", "-s", "help", cwd=ROOT)
    assert {"one", "show", "compare", "check", "lines", "hooks", "docs"} <= set(re.findall(r"^  (\w+)", shown, re.M))


@pytest.mark.parametrize("target, level", [
    ("one T=test_ir:Graph.*", "build"),  # nothing of PyTorch's is downloaded for a test in C++
    ("one T=tests/torch/test_cut.py", "test"),
    ("show F=tests/python/test_cli.py", "build"),
    ("show F=tests/torch/test_cut.py", "test"),
])  # fmt: skip
def test_what_is_installed_is_what_the_command_needs(target, level):
    assert f"tools/bootstrap.sh {level} tools/daily.sh" in run("make", "-n", *target.split(), cwd=ROOT)


def test_the_tests_that_are_named_exist():
    text = "".join((ROOT / name).read_text() for name in ("Makefile", "tools/daily.sh", "docs/hacking.md"))
    named = set(re.findall(r"tests/\w+/test_\w+\.py", text))
    assert len(named) > 2 and not [name for name in named if not (ROOT / name).exists()]


def test_lines_are_counted_by_one_rule():
    def rows(*folders):
        text = run("make", "-s", "lines", f"D={' '.join(folders)}", cwd=ROOT)
        return {name: int(n.replace(",", "")) for n, name in re.findall(r"^ *([\d,]+) lines in +\d+ files  (\S+)$", text, re.M)}

    whole, inside = rows(), rows("tests/cuda")
    assert whole["all"] == sum(whole.values()) / 2 and whole["tests"] == rows("tests")["all"]
    assert inside["tests/cuda/shot.py"] == (ROOT / "tests/cuda/shot.py").read_text().count("\n")
    assert "tests/conformance/corpus" not in rows("tests/conformance")  # which holds data
