# tests/python/test_onnx_archive.py: ONNX models compiled into archives
import json
import os
import threading
import time

import hologram
import numpy as np
import pytest
from checks import python, refuses, same

pytest.importorskip("onnx")
import onnx  # noqa: E402
import onnx_models  # noqa: E402
from hologram.cli import main  # noqa: E402
from hologram.onnx import kept  # noqa: E402
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
        same(want, found)
        np.testing.assert_array_equal(archive(image=x)[0], want[0])
    refuses(ValueError, "size n is 17 .* expected 1 to 16", lambda: archive(np.zeros((17, 3, 8, 8), np.float32)))
    assert {"w", "scale", "out"} <= set(archive.tensors)


def test_the_command_line_compiles_and_runs(network, tmp_path, capsys):
    path = str(tmp_path / "m.holo")
    assert main(["compile", str(network[0]), "-o", path, "--shape", "n=1..4", "--isa", "sse42", "--pad", "image=0", "--json"]) == 0
    assert hologram.load(path).methods["forward"].padding == {"image": 0}
    written = json.loads(capsys.readouterr().out)
    assert written["sizes"] == {"n": [1, 4]} and written["isas"] == ["sse42"]
    for name, words in (("pipe", ["compile", str(network[0])]), ("pipe.npz", ["archive", "extract", path])):
        os.mkfifo(tmp_path / name)  # as /dev/null, which must stay
        assert main([*words, "-o", str(tmp_path / name)]) == 1 and (tmp_path / name).is_fifo()
        assert f"{name}: it is no regular file" in capsys.readouterr().err
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
    refuses(NotImplementedError, "the model needs another graph .* narrow the ranges", lambda: model.save(tmp_path / "m.holo"))
    model.save(tmp_path / "m.holo", {"n": (5, 9)}, isas=())
    x = RNG.standard_normal(7).astype(np.float32)
    np.testing.assert_array_equal(hologram.load(tmp_path / "m.holo")(x), x[:5])


@pytest.mark.parametrize("kind, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_of_open_length_are_loops(kind, gates, tmp_path):
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal(s).astype(np.float32) / 3 for n, s in (("w", (2, 8 * gates, 6)), ("r", (2, 8 * gates, 8)))}
    weights["b"] = rng.standard_normal((2, 16 * gates)).astype(np.float32)
    results = ["y", "h", "c"] if kind == "LSTM" else ["y", "h"]
    inputs = {"x": ("float32", ["length", "batch", 6])}
    nodes = [helper.make_node(kind, ["x", "w", "r", "b"], results, hidden_size=8, direction="bidirectional")]
    model = hologram.from_onnx(onnx_models.model(nodes, inputs, results, weights))
    model.save(tmp_path / "m.holo", {"length": (1, 100)}, isas=() if kind == "GRU" else ["sse42"])
    archive = hologram.load(tmp_path / "m.holo")
    for length, batch in ((5, 3), (40, 2), (1, 1)):
        x = RNG.standard_normal((length, batch, 6)).astype(np.float32)
        same(archive(x), model(x), rtol=1e-5, atol=1e-6)
    nodes[0].input.append("lengths")
    inputs["lengths"] = ("int32", ["batch"])
    with pytest.raises(NotImplementedError, match=f"an archive holds one graph, and onnx.{kind} is computed between graphs"):
        hologram.from_onnx(onnx_models.model(nodes, inputs, results, weights)).save(tmp_path / "m.holo")


# --- what calls of files leave in the cache folder


@pytest.fixture
def old_file(network, tmp_path):
    """The network in a file that nobody changed lately."""
    path = tmp_path / "m.onnx"
    path.write_bytes(network[0].read_bytes())
    os.utime(path, (time.time() - 60,) * 2)
    return path


def called(path, x):
    """Whether there was an archive; what the call gives, once one may be there."""
    model = hologram.from_onnx(path)
    found, results = bool(model._kept.graphs), model(x)
    model._kept.finish()
    return found, results


def test_files_that_were_called_are_neither_read_nor_traced_again(old_file):
    images = {n: RNG.standard_normal((n, 3, 8, 8)).astype(np.float32) for n in (1, 2, 5)}
    first = hologram.from_onnx(old_file)
    assert not first._kept.graphs
    want = {n: first(images[n]) for n in (2, 1)}
    first._kept.finish()
    second = hologram.from_onnx(old_file)
    assert (second.inputs, second.outputs, repr(second)) == (first.inputs, first.outputs, repr(first))
    for n in (1, 2, 2):
        same(second(images[n]), want[n])
    np.testing.assert_array_equal(second(images[5])[0], first(images[5])[0])
    assert second._reading is None and len(second.reports()) == 2 and second.stats() == {"fallback_ops": {}, "steps": {}}
    assert second(images[5][:0])[0].shape == (0, 5) and second._reading is not None  # no elements: what no archive holds
    refuses(ValueError, "input 'image': expected the shape of image", lambda: hologram.from_onnx(old_file)(images[5][0]))
    assert not hologram.from_onnx(old_file, reproducible=True)._kept.graphs
    code = "import sys, numpy as np, hologram; sys.modules['onnx'] = None; hologram.from_onnx(sys.argv[1])(np.ones((2, 3, 8, 8), 'f4'))"
    python("-c", code, old_file)


def test_a_process_ends_when_its_archives_are_written(old_file, monkeypatch):
    code = "import sys, numpy as np, hologram; hologram.from_onnx(sys.argv[1])(np.ones((2, 3, 8, 8), 'f4'))"
    python("-c", code, old_file)
    x, go = np.ones((2, 3, 8, 8), np.float32), threading.Event()
    assert hologram.from_onnx(old_file)._kept.graphs
    write = kept.Kept._write
    monkeypatch.setattr(kept.Kept, "_write", lambda *args: go.wait(60) and write(*args))
    model = hologram.from_onnx(old_file)
    model(x[:1])  # does not wait for its archive
    assert len(hologram.from_onnx(old_file)._kept.graphs) == 1
    go.set()
    model._kept.finish()
    assert len(hologram.from_onnx(old_file)._kept.graphs) == 2


def test_files_that_changed_are_read_again(old_file):
    x = RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)
    called(old_file, x)
    assert hologram.from_onnx(old_file)._kept.graphs
    proto = onnx_models.network()
    proto.graph.initializer[-1].raw_data = bytes(len(proto.graph.initializer[-1].raw_data))
    old_file.write_bytes(proto.SerializeToString())
    os.utime(old_file, (time.time() - 60,) * 2)  # the same size and time
    assert not hologram.from_onnx(old_file)(x)[0].any()
    old_file.write_bytes(old_file.read_bytes())
    called(old_file, x)  # too new: it may change again without a sign
    assert not hologram.from_onnx(old_file)._kept.graphs


def test_models_with_data_beside_them_or_with_steps(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    proto = onnx_models.model(nodes, {"x": ("float32", ["n", 4])}, ["y"], {"w": np.eye(4, 300, dtype=np.float32)})
    onnx.save_model(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    x = RNG.standard_normal((3, 4)).astype(np.float32)

    def again(*written):
        for name in written:
            os.utime(tmp_path / name, (time.time() - 60,) * 2)
        return called(tmp_path / "m.onnx", x)

    assert not again("m.onnx", "w.bin")[0]
    found, y = again()
    assert found and np.array_equal(y[:, :4], x)
    (tmp_path / "w.bin").write_bytes(bytes(len((tmp_path / "w.bin").read_bytes())))
    found, y = again("w.bin")
    assert not found and not y.any()
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    (tmp_path / "m.onnx").write_bytes(onnx_models.model(nodes, {"x": ("float32", ["n", 4])}, ["y"]).SerializeToString())
    assert not again("m.onnx")[0] and not again()[0]
