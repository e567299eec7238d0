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
    """Training with dropout, a schedule and a generator of batches: all that a checkpoint holds."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.2), nn.Tanh(), nn.Linear(32, 3))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=torch.tensor(0.01))
        self.loss = compile_fresh(lambda x: self.model(x).square().mean())
        self.update = torch.compile(self.optimizer.step, backend=BACKEND)

    def batch(self, size):
        return torch.randn(size, 6)

    def step(self, x):
        loss = self.loss(x)
        loss.backward()
        self.update()
        return loss.detach()

    def steps(self, count, size=lambda step: 16):
        losses = []
        for step in range(count):
            self.optimizer.zero_grad()
            losses.append(self.step(self.batch(size(step))))
            self.optimizer.param_groups[0]["lr"].mul_(0.9)
        return torch.stack(losses)

    def state(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "random": torch.get_rng_state()}

    def restore(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])


class Loaded(Run):
    """With float16, whose scale grows, and batches of a loader, whose place in the epoch a checkpoint holds too."""

    def __init__(self):
        super().__init__()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        self.order = torch.Generator().manual_seed(1)
        self.data = torch.utils.data.DataLoader(torch.randn(64, 6), batch_size=16, shuffle=True, generator=self.order)
        self.begin()
        plain = self.model.forward

        def forward(x):
            with torch.autocast("cpu", torch.float16):
                return plain(x)

        self.model.forward = forward

    def begin(self):
        self.place = {"order": self.order.get_state(), "taken": 0}
        self.batches = iter(self.data)

    def batch(self, _):
        if self.place["taken"] == len(self.data):
            self.begin()
        self.place["taken"] += 1
        return next(self.batches)

    def step(self, x):
        loss = self.loss(x)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def state(self):
        return super().state() | {"scaler": self.scaler.state_dict(), "place": self.place}

    def restore(self, state):
        self.order.set_state(state["place"]["order"])
        self.begin()
        for _ in range(state["place"]["taken"]):
            self.batch(None)
        self.scaler.load_state_dict(state["scaler"])
        super().restore(state)  # its random numbers last: a loader may draw some


@pytest.mark.parametrize("kind", [Run, Loaded])
def test_resumed_runs_have_the_same_bits(kind, tmp_path):
    run = kind()
    run.steps(6)
    utils.save(run.state(), tmp_path / "state.pt")
    expected = run.steps(3)
    again = kind()
    again.steps(1)  # not from where the other began
    again.restore(torch.load(tmp_path / "state.pt"))
    assert torch.equal(again.steps(3), expected)
    assert kind is Run or again.scaler.get_scale() == run.scaler.get_scale() > 8
    assert all(torch.equal(p, q) for p, q in zip(run.model.parameters(), again.model.parameters()))


def test_batches_of_many_sizes_compile_once():
    run = Run()
    sizes = [16, 24, 7, 13, 16, 101, 5, 64]
    run.steps(2, sizes.__getitem__)  # the second size is a symbol
    torch.compiler.set_stance("fail_on_recompile")
    try:
        graphs, misses = graph_count(), backend_stats()["kernel_cache_misses"]
        run.steps(6, sizes[2:].__getitem__)
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
