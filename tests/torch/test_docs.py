# tests/torch/test_docs.py: the examples of README and docs run as they stand
import os
import pathlib
import re

import forks
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def examples():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for n, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)):
            yield pytest.param(code, id=f"{page.name}-{n}")


@pytest.mark.parametrize("code", list(examples()))
def test_example_runs(code, tmp_path):
    env = dict(os.environ, HOLOGRAM_STRICT="1", HOLOGRAM_CACHE_DIR=str(tmp_path / "cache"))
    done = forks.run(code, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr[-2000:]


def test_pages_link_to_files_that_exist():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
