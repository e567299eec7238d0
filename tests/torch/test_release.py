# tests/torch/test_release.py: frozen models that have given back the weights of which packed copies are read
import copy
import gc
import io
import pickle

import pytest
import torch
from torch import nn

hologram_torch = pytest.importorskip("hologram_torch")
released = pytest.importorskip("hologram_torch.released")

X = torch.linspace(-1, 1, 96 * 64).reshape(96, 64)


def make():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64)).eval()


def both(**options):
    """A frozen model that kept its weights, and one that did not."""
    model = make()
    return model, hologram_torch.freeze(make(), (X,), **options), hologram_torch.freeze(model, (X,), release_weights=True, **options)


def same_bits(first, second, x=X):
    with torch.no_grad():
        assert torch.equal(first(x), second(x))


def test_what_is_released_is_told():
    before = hologram_torch.stats()["memory"]["released_weights"]
    model, _, frozen = both()
    assert frozen.released == {"0.weight": 64 * 128 * 4, "2.weight": 64 * 128 * 4}
    assert hologram_torch.stats()["memory"]["released_weights"] == before + 2 * 64 * 128 * 4
    assert "released 2 weights (0.1 MiB)" in repr(frozen) and repr(model[0].weight).startswith("ReleasedWeight('0.weight'")
    assert isinstance(model[0].weight, nn.Parameter) and model[0].weight.shape == (128, 64) and model[0].weight.requires_grad
    del frozen
    gc.collect()
    assert hologram_torch.stats()["memory"]["released_weights"] == before


@pytest.mark.parametrize("options", [{}, {"reproducible": True}], ids=str)
def test_results_stay_the_same_bits(options):
    _, kept, frozen = both(**options)
    for x in (X, X * 3, X.flip(0)):
        same_bits(kept, frozen, x.contiguous())
    assert frozen.captures == 1


def test_what_makes_others_compute_anew_does_not_touch_what_is_kept():
    from hologram import _core

    _, kept, frozen = both()
    for _ in range(2):
        _core.forget_kept()
        _core.memory_written(X.data_ptr(), X.nbytes)
        hologram_torch.release_memory()
        same_bits(kept, frozen)


@pytest.fixture(scope="module")
def shared():
    """A model and what it became, which every use leaves as they are."""
    model = make()
    return model, hologram_torch.freeze(model, (X,), release_weights=True)


@pytest.mark.parametrize(
    "use",
    [
        lambda m: m(X),
        lambda m: m.state_dict(),
        lambda m: m.to(torch.float64),
        lambda m: m(X).sum().backward(),
        lambda m: copy.deepcopy(m),
        lambda m: pickle.dumps(m),
        lambda m: torch.save(m, io.BytesIO()),
        lambda m: m[0].weight + 1,
        lambda m: m[0].weight.data,
        lambda m: m[0].weight.numpy(),
        lambda m: m[0].weight.tolist(),
        lambda m: m[0].weight.data_ptr(),
        lambda m: torch.from_dlpack(m[0].weight),
        lambda m: m.load_state_dict(make().state_dict()),
        lambda m: torch.optim.SGD(m.parameters(), 0.1) and nn.utils.parameters_to_vector(m.parameters()),
        lambda m: torch.compile(m, backend="hologram")(X),
        lambda m: hologram_torch.freeze(m, (X,)),
    ],
    ids=lambda use: use.__code__.co_names[-1] if use.__code__.co_names else "call",
)
def test_using_a_released_weight_says_so(use, shared):
    model, frozen = shared
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="0.weight.*release"):
        use(model)
    with torch.no_grad():
        assert torch.isfinite(frozen(X)).all()


def test_another_capture_needs_the_weights():
    model, kept, frozen = both()
    with torch.no_grad(), pytest.raises(RuntimeError, match="2 weights .*were released"):
        frozen(X[:7])
    same_bits(kept, frozen)
    model.load_state_dict(make().state_dict(), assign=True)
    same_bits(kept, frozen)
    assert frozen.captures == 2
    with torch.no_grad():
        frozen(X[:7])


def test_what_others_read_stays():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.out = nn.Embedding(32, 64), nn.Linear(64, 32, bias=False)
            self.out.weight = self.table.weight
            self.both = nn.Linear(64, 64, bias=False)

        def forward(self, i):
            x = self.table(i)
            return self.out(x @ self.both.weight) + (x * self.both.weight[3]).sum(-1, keepdim=True)

    model, i = Tied().eval(), torch.arange(96) % 32
    with torch.no_grad():
        expected = hologram_torch.freeze(model, (i,))(i)
        frozen = hologram_torch.freeze(model, (i,), release_weights=True)
        assert frozen.released == {} and torch.equal(frozen(i), expected)
        assert model(i).shape == (96, 32)


def test_what_is_held_elsewhere_is_not_counted():
    model = make()
    weight = model[0].weight
    frozen = hologram_torch.freeze(model, (X,), release_weights=True)
    assert list(frozen.released) == ["2.weight"] and isinstance(model[0].weight, released.ReleasedWeight)
    assert weight.sum().isfinite()


def test_nothing_is_released_without_packed_copies_or_one_precision():
    model = make()
    assert hologram_torch.freeze(model, (X,), release_weights=True, pack_weights=False).released == {}
    with pytest.raises(ValueError, match="one precision"):
        hologram_torch.freeze(model, (X,), release_weights=True, fast=True)
    with torch.no_grad():
        assert model(X).isfinite().all()
