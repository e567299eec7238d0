# tests/torch/test_profiling.py: torch.profiler sees the steps of compiled graphs
import pytest
import torch
from harness import compile_fresh, module


@module(layers=lambda: torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)))
def Model(self, x):
    y = torch.softmax(self.layers(x), -1)
    return torch.linalg.det(y @ y.mT + torch.eye(y.shape[0]))  # PyTorch's, and a product before it


def recorded(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile, torch.no_grad():
        call()
    return [e.name for e in profile.events() if e.name.startswith("hologram::")]


def test_each_step_is_a_region_with_its_name():
    model, x = Model().eval(), torch.randn(8, 16)
    compiled = compile_fresh(model)
    with torch.no_grad():
        before = compiled(x)
        names = recorded(lambda: compiled(x))
        assert torch.equal(compiled(x), before)
    assert len(names) >= 4 and "hologram::aten._linalg_det.default" in names or any("det" in n for n in names), names
    assert any("dot" in n for n in names), names
    assert recorded(lambda: model(x)) == []


def test_errors_of_steps_and_of_recorders_keep_their_own_ways():
    from hologram import _core

    def broken(name):
        raise ValueError("no region")

    x, index = torch.randn(4, 16), torch.tensor([0, 99])
    compiled = compile_fresh(lambda x, i: x.sin()[i] * 2)
    expected = compiled(x, torch.tensor([0, 1]))
    try:
        _core.set_recorder(broken)
        assert torch.equal(compiled(x, torch.tensor([0, 1])), expected)
        with pytest.raises(IndexError):
            compiled(x, index)
    finally:
        _core.set_recorder(None)
    with torch.profiler.profile() as profile, pytest.raises(IndexError):
        compiled(x, index)
    assert any(e.name.startswith("hologram::") for e in profile.events())
