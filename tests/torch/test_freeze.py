# tests/torch/test_freeze.py: frozen models see what changes
import copy

import pytest
import torch
from checks import refuses
from harness import check, module
from torch import nn

hologram_torch = pytest.importorskip("hologram_torch")


def make():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 3)).eval()


X = torch.arange(12.0).reshape(2, 6) / 12


def agrees(frozen, model, *inputs):
    with torch.no_grad():
        check(frozen(*inputs), model(*inputs))
        return frozen.captures


def test_a_frozen_model_gives_the_same():
    model = make()
    hologram_torch.reset_stats()
    frozen = hologram_torch.freeze(model, (X,))
    for _ in range(3):
        assert agrees(frozen, model, X) == 1
    stats = hologram_torch.stats()
    assert stats["graphs"] == 1 and stats["failed_graphs"] == 0 and stats["fallback_ops"] == {}


def test_new_weights_are_seen():
    model = make()
    frozen = hologram_torch.freeze(model, (X,))
    with torch.no_grad():
        model[0].weight.mul_(-2)
    assert agrees(frozen, model, X) == 1
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    assert agrees(frozen, model, X) == 1
    model[0].weight.data = torch.ones(8, 6)
    assert agrees(frozen, model, X) == 1
    model[0].weight.data = torch.ones(6, 8).t()  # other strides
    assert agrees(frozen, model, X) == 2
    model[3].weight = nn.Parameter(torch.ones(3, 8))
    assert agrees(frozen, model, X) == 3
    model[1] = nn.ReLU()
    assert agrees(frozen, model, X) == 4


def test_arguments_may_change():
    model = make()
    frozen = hologram_torch.freeze(model, (X,))
    assert agrees(frozen, model, torch.randn(5, 6)) == 2
    assert agrees(frozen, model, torch.randn(6, 2).t()) == 3
    assert agrees(frozen, model, X) == 3
    with torch.no_grad(), pytest.raises(RuntimeError):
        frozen(X.double())
    with torch.no_grad(), pytest.raises(TypeError, match="got list"):
        frozen([X])
    with torch.no_grad(), pytest.raises(TypeError, match="plain values"):
        frozen(torch._neg_view(X))
    with torch.no_grad(), pytest.raises((TypeError, RuntimeError)):
        frozen(X, X)


def test_training_mode_is_seen():
    model = make()
    frozen = hologram_torch.freeze(model, (X,))
    model.train()
    with torch.no_grad():
        assert not torch.equal(frozen(X), frozen(X))
    assert frozen.captures == 2
    model.eval()
    agrees(frozen, model, X)


def test_hooks_are_seen():
    model = make()
    frozen = hologram_torch.freeze(model, (X,))
    model[0].register_forward_hook(lambda module, inputs, out: out * 2)
    assert agrees(frozen, model, X) == 2


def test_gradients_and_autocast_are_refused():
    frozen = hologram_torch.freeze(make(), (X,))
    refuses(RuntimeError, "no gradients", lambda: frozen(X))
    with torch.no_grad(), torch.autocast("cpu"), pytest.raises(RuntimeError, match="autocast"):
        frozen(X)


def test_what_cannot_be_frozen_is_named():
    refuses(TypeError, "expected a torch.nn.Module, got function", lambda: hologram_torch.freeze(lambda x: x, (X,)))
    refuses(TypeError, "a tuple of the model's arguments, got Tensor", lambda: hologram_torch.freeze(nn.ReLU(), X))
    refuses(ValueError, "writes into running_mean", lambda: hologram_torch.freeze(nn.BatchNorm1d(6), (X,)))


def test_numbers_and_structures():
    @module(factor=lambda: 2.0)
    def Scaled(self, x, n):
        return {"out": x * n * self.factor, "parts": (x + n, x - n)}

    model = Scaled()
    frozen = hologram_torch.freeze(model, (X, 3))
    assert agrees(frozen, model, X, 3) == 1
    assert agrees(frozen, model, X, 4) == 2
    assert agrees(frozen, model, X, 4.0) == 3
    assert agrees(frozen, model, X, 4) == 3
    model.factor = 5.0
    assert agrees(frozen, model, X, 3) == 4
    assert agrees(hologram_torch.freeze(copy.deepcopy(model), (X, 3)), model, X, 3) == 1
