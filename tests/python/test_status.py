# tests/python/test_status.py: README's table says what the results say
import shutil
from pathlib import Path

from checks import load, python

ROOT = Path(__file__).resolve().parents[2]


STATUS = ROOT / "tools" / "status.py"


def test_the_table_is_current():
    python(STATUS, "--check")


def test_the_table_follows_the_results(tmp_path):
    for name in ("bench/conformance/opinfo_expected.txt", "bench/shared/zoo.py", "src/ir/ops.def"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    operators = "# head\nnative   a\nnative   b\nfallback c\nnograph  d\nwrong    e\n"
    (tmp_path / "bench/conformance/opinfo_expected.txt").write_text(operators)
    text = load(STATUS).table(tmp_path)
    assert "3 of 5 operators agree with eager" in text and "2 of them natively, 1 with a call into PyTorch" in text
    assert "no graph for 1" in text and "| 1 wrong |" in text
