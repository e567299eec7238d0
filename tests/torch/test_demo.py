# tests/torch/test_demo.py: the demo finds its answers and reports what it did
import importlib.util

import pytest
import torch
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
        found = lines[lines.index(f"  {question}") + 1]
        assert found.startswith(f"    {title} (")
    starts = [line.split("  ")[0] for line in lines]
    for part in ("Model", "First call", "Collection", "Difference", "Questions", "Latency"):
        assert part in starts
    if importlib.util.find_spec("sentence_transformers"):
        assert "Sentences" in starts
    if BACKEND == "hologram":
        assert "Compiled" in starts and "Fallbacks     none" in lines


def test_embedding_is_the_masked_mean():
    class Transformer(torch.nn.Module):
        def forward(self, input_ids, attention_mask, return_dict):
            return (torch.stack((input_ids, 2 * input_ids), -1).float(),)

    encoder = demo.Encoder(Transformer())
    ids, mask = torch.tensor([[1, 2, 9], [5, 9, 9]]), torch.tensor([[1, 1, 0], [1, 0, 0]])
    expected = torch.nn.functional.normalize(torch.tensor([[1.5, 3.0], [5.0, 10.0]]))
    torch.testing.assert_close(encoder(ids, mask), expected)


def test_rounds_are_interleaved():
    called = []
    times = demo.latencies({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, 2, 0)
    assert called == ["a", "a", "b", "b"] * 2
    assert [len(values) for values in times.values()] == [2, 2]
