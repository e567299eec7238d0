# tests/torch/test_distributed.py: training and evaluation in two processes give one process's losses
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forks
import pytest
import torch

if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("this PyTorch has no torch.distributed with gloo", allow_module_level=True)
CASES = ["ddp", "fsdp by blocks", "fsdp whole", "tensor parallel"]
LIMIT = 300.0  # seconds for both processes


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distributed")
    program = f"import runpy; runpy.run_path({str(Path(__file__).with_name('distributed_worker.py'))!r}, run_name='__main__')"
    run = lambda rank: forks.run(program, str(rank), folder / "store", folder / "results", *CASES, timeout=LIMIT)  # noqa: E731
    with ThreadPoolExecutor() as pool:
        said = [done.stdout + done.stderr for done in pool.map(run, range(2))]
    files = [Path(f"{folder / 'results'}.{rank}") for rank in range(2)]
    assert all(f.exists() for f in files), "\n".join(said)
    return [json.loads(f.read_text()) for f in files]


@pytest.mark.parametrize("case", CASES)
def test_losses_are_those_of_one_process(case, results):
    for result in results:
        found = result[case]
        assert "error" not in found, found["error"]
        for expected, actual in zip(found["expected"], found["actual"], strict=True):
            torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected), rtol=2e-4, atol=2e-5)
        assert found["graphs"] > 0 and found["failed_graphs"] == 0
        assert not found["fallback_ops"]
        if case.startswith("fsdp"):
            assert found["packed"] <= 0  # its parameters are gathered for each call


def test_ddp_was_split(results):
    assert results[0]["ddp"]["graphs"] > 3  # forward, backward and evaluation of one graph
