# tests/python/test_docs_console.py: what the pages show of the command line is what it prints
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def sessions():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for n, block in enumerate(re.findall(r"^```console\n(.*?)^```", page.read_text(), re.M | re.S)):
            if "$ hologram " in block:
                yield pytest.param(block, id=f"{page.stem}-{n}")


@pytest.mark.parametrize("block", list(sessions()))
def test_session(block, tmp_path):
    python = shlex.quote(sys.executable)
    prelude = f'hologram() {{ {python} -m hologram "$@" 2>/dev/null; }}\npython3() {{ {python} "$@"; }}\n'
    env = dict(os.environ, HOLOGRAM_CACHE_DIR=str(tmp_path / "cache"))
    for step in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, expected = step.partition("\n")
        done = subprocess.run(["bash", "-c", prelude + command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
        assert done.stdout == expected, f"$ {command}\n{done.stderr}"


def test_pages_have_sessions():
    assert len(list(sessions())) >= 4
