# tests/python/test_bench_scripts.py: the SDK's benchmarks run, and their tables say what they should
from pathlib import Path

from checks import python

BENCH = Path(__file__).parents[2] / "bench"


def rows(tmp_path, script, *arguments):
    """The cells of every line of the tables that a script writes, and how many there are in one."""
    python(BENCH / script, *arguments, "--markdown", "out.md", cwd=tmp_path, timeout=300)
    text = (tmp_path / "out.md").read_text()
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return lines, {len(cells) for cells in lines}


def test_json_against_shared_memory(tmp_path):
    lines, widths = rows(tmp_path, "transfer.py", "--sizes", "1000,100000", "--seconds", "0.02")
    assert widths == {7} and [line[0] for line in lines[1:]] == ["1,000", "100,000"]
    for line, least in zip(lines[1:], (10, 20)):
        assert float(line[4]) >= least and float(line[5]) >= least, line


def test_operations_beside_peers(tmp_path):
    lines, _ = rows(tmp_path, "sdk.py", "--sizes", "1024,5000", "--seconds", "0.02")
    names = {line[1] for line in lines if line[0] == "5,000"}
    assert len(names) == 22 and {"vector_add", "gelu", "reduce_sum", "mse_loss", "gemm"} <= names
    assert {"write (from_numpy)", "read (to_numpy)", "round trip"} <= {line[0] for line in lines}


def test_programs_beside_numpy(tmp_path):
    lines, widths = rows(tmp_path, "numpy_programs.py", "--sizes", "400,900", "--seconds", "0.001", "--only", "softmax,box_blur,tax")
    assert widths == {5} and {line[1] for line in lines[1:]} == {"softmax", "box_blur", "tax"} and len(lines) == 7
