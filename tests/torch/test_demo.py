# tests/torch/test_demo.py: the demo finds its answers and reports what it did
import importlib.util

import pytest
from harness import BACKEND, compile_fresh

demo = pytest.importorskip("hologram_torch.demo.search")


def test_demo(capsys):
    try:
        tokenizer, encoder = demo.load()
    except ImportError as error:
        pytest.skip(str(error))
    compile_fresh(encoder)  # the demo reports what is counted in its process
    assert demo.main(["--backend", BACKEND, "--rounds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for title, question in demo.read("questions.txt"):
        assert lines[lines.index(f"  {question}") + 1].startswith(f"    {title} (")
    starts = [line.split("  ")[0] for line in lines]
    for part in ("Model", "First call", "Collection", "Difference", "Questions", "Latency"):
        assert part in starts
    if importlib.util.find_spec("sentence_transformers"):
        assert "Sentences" in starts
    if BACKEND == "hologram":
        assert "Compiled" in starts and "Fallbacks     none" in lines
