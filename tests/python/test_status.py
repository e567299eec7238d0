# tests/python/test_status.py: README's table says what the results say
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def status():
    spec = importlib.util.spec_from_file_location("status", ROOT / "tools" / "status.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_current():
    done = subprocess.run([sys.executable, ROOT / "tools" / "status.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_table_follows_the_results(status, tmp_path):
    for name in ("bench/conformance/opinfo_expected.txt", "bench/shared/zoo.py", "src/ir/ops.def"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    operators = "# head\nnative   a\nnative   b\nfallback c\nnograph  d\nwrong    e\n"
    (tmp_path / "bench/conformance/opinfo_expected.txt").write_text(operators)
    text = status.table(tmp_path)
    assert "3 of 5 operators agree with eager" in text and "2 of them natively, 1 with a call into PyTorch" in text
    assert "no graph for 1" in text and "| 1 wrong |" in text
