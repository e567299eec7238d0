# tests/torch/test_long_runs.py: training that lasts: resumed, with batches of many sizes, without growing, killed while it saves
import gc
import os
import random
import time

import forks
import pytest
import torch
from harness import BACKEND, backend_stats, compile_fresh, graph_count
from hologram_torch import utils
from torch import nn

pytestmark = pytest.mark.usefixtures("unwatched")


class Run:
    """Training with dropout and a schedule: all that a checkpoint holds."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.2), nn.Tanh(), nn.Linear(32, 3))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=torch.tensor(0.01))
        self.loss = compile_fresh(lambda x: self.model(x).square().mean())
        self.update = torch.compile(self.optimizer.step, backend=BACKEND)

    def steps(self, count, size=lambda step: 16):
        losses = []
        for step in range(count):
            self.optimizer.zero_grad()
            loss = self.loss(torch.randn(size(step), 6))
            loss.backward()
            self.update()
            losses.append(loss.detach())
            self.optimizer.param_groups[0]["lr"].mul_(0.9)
        return torch.stack(losses)

    def state(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "random": torch.get_rng_state()}

    def restore(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])


def test_resumed_runs_have_the_same_bits(tmp_path):
    run = Run()
    run.steps(6)
    utils.save(run.state(), tmp_path / "state.pt")
    expected = run.steps(3)
    again = Run()
    again.steps(1)  # not from where the other began
    again.restore(torch.load(tmp_path / "state.pt"))
    assert torch.equal(again.steps(3), expected)
    assert all(torch.equal(p, q) for p, q in zip(run.model.parameters(), again.model.parameters()))


def test_batches_of_many_sizes_compile_once():
    run = Run()
    sizes = [16, 24, 7, 13, 16, 101, 5, 64]
    run.steps(3, sizes.__getitem__)  # the second size is a symbol, whose kernels the call after it compiles
    torch.compiler.set_stance("fail_on_recompile")
    try:
        graphs, misses = graph_count(), backend_stats()["kernel_cache_misses"]
        run.steps(5, sizes[3:].__getitem__)
    finally:
        torch.compiler.set_stance("default")
    assert graph_count() == graphs and backend_stats()["kernel_cache_misses"] == misses


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_memory_is_steady():
    run = Run()
    run.steps(200, lambda step: 16 if step % 3 else 48)
    gc.collect()
    before, used = resident(), backend_stats()["memory"]["in_use"]
    run.steps(int(os.environ.get("HOLOGRAM_STEPS", 1000)), lambda step: 16 if step % 3 else 48)
    gc.collect()
    assert backend_stats()["memory"]["in_use"] - used < 1024
    assert resident() - before < 2 << 20


def saves(path):
    for step in range(100_000):
        utils.save({"step": step, "values": torch.full((50_000,), float(step))}, path)


def test_a_kill_loses_nothing_that_was_saved(tmp_path):
    chance = random.Random(0)
    for number in range(4):
        path = tmp_path / f"state{number}.pt"
        process = forks.FORKING.Process(target=saves, args=(path,))
        process.start()
        while not path.exists() or torch.load(path)["step"] < 2:  # however busy the machine is
            assert process.exitcode is None
            time.sleep(0.01)
        time.sleep(0.1 * chance.random())
        process.kill()
        process.join()
        state = torch.load(path)
        assert (state["values"] == state["step"]).all()
