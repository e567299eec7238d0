# tests/torch/test_archived_layers.py: nn.LSTM, nn.GRU and nn.RNN in archives, for every length

import hologram
import hologram_torch
import numpy as np
import pytest
import torch
from archived import LEVEL
from checks import python
from harness import compile_fresh, module
from test_archive import WITHOUT_TORCH, arrays, assert_near, assert_same
from test_recurrent import LAYERS, hidden, make, normal
from test_rt import call as call_rt
from torch.export import Dim

STEPS, BATCH = Dim("steps", min=1, max=1000), Dim("batch", min=1, max=100)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "layer.holo"


def sizes(layer):
    """dynamic_shapes of an input, by its axes."""
    return {0: BATCH, 1: STEPS} if layer.batch_first else {0: STEPS, 1: BATCH}


def compiled_calls(layer, inputs):
    compiled = compile_fresh(layer, dynamic=True)
    with torch.no_grad():
        return [compiled(*given) for given in inputs]


@module(words=lambda: torch.nn.Embedding(50, 12), lstm=lambda: torch.nn.LSTM(12, 20, 2, bidirectional=True, batch_first=True),
        classes=lambda: torch.nn.Linear(40, 5))  # fmt: skip
def Tagger(self, ids):
    """Words to classes, by an LSTM in between."""
    return torch.softmax(self.classes(self.lstm(self.words(ids))[0]), -1)


def tagger(path, **options):
    model, ids = Tagger().eval(), torch.arange(15).reshape(3, 5)
    options = {"isas": [LEVEL], **options}
    return model, hologram_torch.export(model, (ids,), path, dynamic_shapes=({0: BATCH, 1: STEPS},), **options)


@pytest.mark.parametrize("name", LAYERS)
def test_same_bits_as_the_compiled_layer_for_every_length(name, path):
    layer = make(name).eval()
    report = hologram_torch.export(layer, (normal(7, 3, 6),), path, dynamic_shapes=(sizes(layer),), isas=[LEVEL])
    assert report.left == () and report.targets
    inputs = [(normal(*shape, seed=shape[0]),) for shape in ((7, 3, 6), (2, 5, 6), (40, 2, 6))]
    expected = compiled_calls(layer, inputs)
    for trust in (True, False):
        model = hologram.load(path, trust=trust)
        for given, wanted in zip(inputs, expected, strict=True):
            assert_same(model(given[0].numpy()), wanted)
        assert model.methods["forward"]._made.function().precompiled is trust
        with torch.no_grad():
            assert_near(model(normal(1, 1, 6).numpy()), layer(normal(1, 1, 6)))


@pytest.mark.parametrize("name", LAYERS)
def test_first_states_are_arguments(name, path):
    layer, x = make(name).eval(), normal(7, 3, 6)
    given = (x, hidden(layer, 7 if layer.batch_first else 3))
    hologram_torch.export(layer, given, path, isas=())
    (expected,) = compiled_calls(layer, [given])
    assert_same(hologram.load(path)(*arrays(given)), expected)


def test_length_does_not_change_the_file(tmp_path):
    layer = make("gru").eval()
    bytes_of = lambda steps: hologram_torch.export(layer, (normal(steps, 3, 6),), tmp_path / "m.holo", isas=[LEVEL]).bytes
    assert bytes_of(300) < 1.5 * bytes_of(3)


def test_a_model_around_the_layers_without_pytorch_and_in_the_shell(path, tmp_path):
    model, report = tagger(path)
    ids = torch.arange(24).reshape(2, 12)
    (expected,) = compiled_calls(model, [(ids,)])
    np.savez(tmp_path / "in.npz", ids=ids.numpy())
    python("-c", WITHOUT_TORCH, path, tmp_path / "in.npz", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as results:
        assert_same(results[results.files[0]], expected)
    python("-m", "hologram", "run", path, tmp_path / "in.npz", "-o", tmp_path / "out.npy")
    assert_same(np.load(tmp_path / "out.npy"), expected)
    (said, results) = call_rt(tmp_path, path, report.fingerprint, [ids.numpy()])
    assert said["error"] is None
    assert_same(results, [expected])
