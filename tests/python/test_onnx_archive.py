# tests/python/test_onnx_archive.py: ONNX models compiled into archives
import json

import hologram
import numpy as np
import pytest

pytest.importorskip("onnx")
import onnx_models  # noqa: E402
from hologram.cli import main  # noqa: E402
from onnx import helper  # noqa: E402

RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """(path of a small convolutional network, path of its archive)"""
    folder = tmp_path_factory.mktemp("onnx")
    (folder / "m.onnx").write_bytes(onnx_models.network().SerializeToString())
    hologram.from_onnx(folder / "m.onnx").save(folder / "m.holo", {"n": (1, 16)}, isas=())
    return folder / "m.onnx", folder / "m.holo"


def test_archives_give_the_models_bits(network):
    model, archive = hologram.from_onnx(network[0]), hologram.load(network[1])
    for n in (1, 2, 16):
        x = RNG.standard_normal((n, 3, 8, 8)).astype(np.float32)
        want, found = model(x), archive(x)
        assert len(want) == len(found) == 2
        for a, b in zip(want, found):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(archive(image=x)[0], want[0])
    with pytest.raises(ValueError, match="size n is 17 .* expected 1 to 16"):
        archive(np.zeros((17, 3, 8, 8), np.float32))
    assert {"w", "scale", "out"} <= set(archive.tensors)


def test_the_command_line_compiles_and_runs(network, tmp_path, capsys):
    path = str(tmp_path / "m.holo")
    assert main(["compile", str(network[0]), "-o", path, "--shape", "n=1..4", "--isa", "sse42", "--pad", "image=0", "--json"]) == 0
    assert hologram.load(path).methods["forward"].padding == {"image": 0}
    written = json.loads(capsys.readouterr().out)
    assert written["sizes"] == {"n": [1, 4]} and written["isas"] == ["sse42"]
    x = RNG.standard_normal((3, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    assert main(["run", path, str(tmp_path / "x.npy"), "-o", str(tmp_path / "y.npz")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["scores"], hologram.from_onnx(network[0])(x)[0])


@pytest.mark.parametrize(
    "words, message",
    [
        (["--shape", "batch=1..4"], "the model has no size 'batch', but n"),
        (["--shape", "n=4..1"], "expected 1 <= least <= most, got 4..1"),
        (["--shape", "n"], "--shape is NAME=N or NAME=LEAST..MOST"),
        (["--pad", "image"], "--pad is NAME=NUMBER, not 'image'"),
        (["--pad", "mask=0"], "padding names 'mask'; the inputs are image"),
        (["--pad", "image=nan"], "padding of image: expected a finite number, got nan"),
    ],
)
def test_wrong_sizes_are_named(network, tmp_path, capsys, words, message):
    assert main(["compile", str(network[0]), "-o", str(tmp_path / "m.holo"), "--json", *words]) == 1
    assert message in json.loads(capsys.readouterr().out)["error"]["message"]


def test_what_one_graph_cannot_hold_is_refused(tmp_path):
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    model = hologram.from_onnx(onnx_models.model(nodes, {"x": ("float32", ["n"])}, ["y"]))
    with pytest.raises(NotImplementedError, match="an archive holds one graph, and numpy.NonZero is computed between graphs"):
        model.save(tmp_path / "m.holo")
    nodes = [helper.make_node("Slice", ["x", "start", "end"], ["y"])]
    constants = {"start": np.array([0]), "end": np.array([5])}
    model = hologram.from_onnx(onnx_models.model(nodes, {"x": ("float32", ["n"])}, ["y"], constants))
    with pytest.raises(NotImplementedError, match="the model needs another graph .* narrow the ranges"):
        model.save(tmp_path / "m.holo")
    model.save(tmp_path / "m.holo", {"n": (5, 9)}, isas=())
    x = RNG.standard_normal(7).astype(np.float32)
    np.testing.assert_array_equal(hologram.load(tmp_path / "m.holo")(x), x[:5])
