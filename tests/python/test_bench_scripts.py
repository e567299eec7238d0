# tests/python/test_bench_scripts.py: the SDK's benchmarks run, and their tables say what they should
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def run(tmp_path, *command):
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stderr


def rows(path):
    """The cells of every table of a Markdown page, by its first two columns' text."""
    lines = [line.strip("| ").split(" | ") for line in path.read_text().splitlines() if line.startswith("|") and "---" not in line]
    widths = {len(cells) for cells in lines}
    return lines, widths


def test_json_against_shared_memory(tmp_path):
    script = str(ROOT / "bench/transfer.py")
    run(tmp_path, script, "--sizes", "1000,100000", "--seconds", "0.02", "--markdown", "out.md")
    lines, widths = rows(tmp_path / "out.md")
    assert widths == {7} and [line[0] for line in lines[1:]] == ["1,000", "100,000"]
    for line, least in zip(lines[1:], (10, 20)):
        assert float(line[4]) >= least and float(line[5]) >= least, line


def test_operations_beside_peers(tmp_path):
    script = str(ROOT / "bench/sdk.py")
    run(tmp_path, script, "--sizes", "1024,5000", "--seconds", "0.02", "--markdown", "out.md")
    lines, _ = rows(tmp_path / "out.md")
    names = {line[1] for line in lines if line[0] == "5,000"}
    assert len(names) == 22 and {"vector_add", "gelu", "reduce_sum", "mse_loss", "gemm"} <= names
    assert {"write (from_numpy)", "read (to_numpy)", "round trip"} <= {line[0] for line in lines}


def test_programs_beside_numpy(tmp_path):
    script = str(ROOT / "bench/numpy_programs.py")
    run(tmp_path, script, "--sizes", "400,900", "--seconds", "0.001", "--only", "softmax,box_blur,tax", "--markdown", "out.md")
    lines, widths = rows(tmp_path / "out.md")
    assert widths == {5} and {line[1] for line in lines[1:]} == {"softmax", "box_blur", "tax"} and len(lines) == 7
