# tests/python/test_releasing.py: tools/release.py holds the changelog and every place of the version together
import shutil
from pathlib import Path

import pytest
from checks import load, run

ROOT = Path(__file__).resolve().parents[2]
release = load(ROOT / "tools/release.py")


@pytest.fixture
def tree(tmp_path):
    for place in [*release.PLACES, "CHANGELOG.md"]:
        (tmp_path / place).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    return tmp_path


def test_no_python_file_is_kept_out_of_wheels():
    """`sdist.exclude` is for wheels too, and its patterns are git's: one without a slash is for all folders."""
    tomllib, pathspec = pytest.importorskip("tomllib"), pytest.importorskip("pathspec")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    excluded = pathspec.GitIgnoreSpec.from_lines(settings["sdist"]["exclude"])
    files = run("git", "ls-files", "python", cwd=ROOT).split()
    assert "python/hologram_torch/graph/builder.py" in files
    assert [f for f in files if excluded.match_file(f)] == []


def edit(tree, place, old, new):
    text = (tree / place).read_text()
    assert old in text
    (tree / place).write_text(text.replace(old, new, 1))


def test_this_tree_agrees():
    assert release.check(ROOT) == []


def test_setting_a_version_dates_the_changelog(tree):
    release.set_version(tree, "7.8.9", "2031-02-03")
    assert release.check(tree) == [] and "VERSION 7.8.9 " in (tree / "CMakeLists.txt").read_text()
    assert "find_package(hologram 7.8 " in (tree / "examples/CMakeLists.txt").read_text()
    assert "\n## 7.8.9 (2031-02-03)\n" in (tree / "CHANGELOG.md").read_text()
    assert release.notes(tree).startswith("### Added")
    edit(tree, "CHANGELOG.md", "## 7.8.9", "## Unreleased (7.9.0)\n\n### Added\n- x\n\n## 7.8.9")
    assert release.check(tree) == ["CHANGELOG.md:5: 7.9.0, but CMakeLists.txt has 7.8.9"]
    assert release.notes(tree) == "### Added\n- x"


@pytest.mark.parametrize("place, old, new, fault", [
    ("README.md", "This is version ", "This is version 9.", "README.md: 9."),
    ("examples/CMakeLists.txt", "hologram 0", "hologram 99", "examples/CMakeLists.txt: 99"),
    ("CHANGELOG.md", "## Unreleased", "## Next", "CHANGELOG.md:5: expected"),
    ("CHANGELOG.md", "### Added", "### New", "CHANGELOG.md:7: 'New' is none of"),
    ("CHANGELOG.md", "## Unreleased", "## 0.0.1 (2020-01-01)\n## Unreleased", "CHANGELOG.md:5: 0.0.1, but"),
])
def test_what_does_not_fit_is_named(tree, place, old, new, fault):
    edit(tree, place, old, new)
    assert any(line.startswith(fault) for line in release.check(tree)), release.check(tree)
