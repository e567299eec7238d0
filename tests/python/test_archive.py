# tests/python/test_archive.py: files that are no sound archive
import json
import os
import struct
import subprocess
import sys

import hologram
import numpy as np
import pytest
from hologram import _core

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)


def write(path, parameters=(("input", 0), ("tensor", 0)), shape=(None, 4), result=(None, 3), structure="", **keywords):
    """An archive of x @ weight for x of s0 × 4."""
    graph = _core.Graph()
    s0 = graph.new_symbol()
    sized = lambda dims: [s0 if n is None else n for n in dims]
    x = graph.parameter(0, "f32", [s0, 4], [4, 1])
    w = graph.parameter(1, "f32", [4, 3], [3, 1])
    graph.output(product(graph, x, w), [3, 1])
    writer = _core.ArchiveWriter(os.fspath(path))
    writer.add_tensor("weight", "f32", [4, 3], [3, 1], WEIGHT.ctypes.data, WEIGHT.nbytes)
    writer.add_method(
        "forward", graph, [("rows", 1, 1000)], [("x", "f32", sized(shape))], [("y", "f32", sized(result))],
        [list(p) for p in parameters], [], structure, **keywords,
    )  # fmt: skip
    return writer.finish()


def product(graph, x, w):
    """Rows of x times w, by multiplying and adding up."""
    rows = x.shape[0]
    left = graph.expand(graph.reshape(x, [rows, 4, 1]), [rows, 4, 3])
    right = graph.expand(graph.reshape(w, [1, 4, 3]), [rows, 4, 3])
    return graph.reduce("reduce_sum", graph.elementwise("mul", [left, right]), [1])


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "small.holo"
    write(path)
    return path


def test_call(path):
    model = hologram.load(path)
    for rows in (1, 2, 5):
        x = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
        np.testing.assert_array_equal(model(x)[0], x @ WEIGHT)
    np.testing.assert_array_equal(model.tensors["weight"], WEIGHT)
    with pytest.raises(ValueError):
        model.tensors["weight"][0, 0] = 1
    assert model.fingerprint == hologram.load(path, verify="full").fingerprint


def test_the_same_content_has_the_same_fingerprint(path, tmp_path):
    assert write(tmp_path / "again.holo") == hologram.load(path).fingerprint
    assert (tmp_path / "again.holo").read_bytes() == path.read_bytes()


def test_a_weight_repeated_for_sizes_that_calls_choose(tmp_path):
    """What is made of it once for one size is no use for another."""
    graph = _core.Graph()
    s0 = graph.new_symbol()
    x, w = graph.parameter(0, "f32", [s0, 5, 4], [20, 4, 1]), graph.parameter(1, "f32", [4, 3], [3, 1])
    repeated = graph.expand(graph.reshape(w, [1, 4, 3]), [s0, 4, 3])
    graph.output(graph.make("dot_general", [x, repeated], ints=[0]), [15, 3, 1])
    writer = _core.ArchiveWriter(os.fspath(tmp_path / "x.holo"))
    writer.add_tensor("weight", "f32", [4, 3], [3, 1], WEIGHT.ctypes.data, WEIGHT.nbytes)
    writer.add_method("forward", graph, [("rows", 1, 10000)], [("x", "f32", [s0, 5, 4])], [("y", "f32", [s0, 5, 3])],
                      [["input", 0], ["tensor", 0]], [], "")  # fmt: skip
    writer.finish()
    model = hologram.load(tmp_path / "x.holo")
    for rows in (2, 3000, 7):
        x = np.arange(20 * rows, dtype=np.float32).reshape(rows, 5, 4) % 11
        np.testing.assert_array_equal(model(x)[0], x @ WEIGHT)


ODD = ["{", "[1]", '{"arguments": [1]}', '{"torch": 5}', '{"torch": [{}]}', '{"torch": [{"operator": [1, 2]}]}']


@pytest.mark.parametrize("structure", ODD)
def test_nesting_that_says_nothing(structure, tmp_path):
    write(tmp_path / "odd.holo", structure=structure)
    with pytest.raises(hologram.HologramError, match=r'odd.holo: method "forward": nesting that cannot be read'):
        hologram.load(tmp_path / "odd.holo")


@pytest.mark.parametrize("backend", ["interp", "null"])
def test_other_backends(path, backend):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(hologram.load(path, backend=backend)(x)[0], x @ WEIGHT)


def refused(content, tmp_path):
    """Whether loading and calling ends in a clear error."""
    broken = tmp_path / "broken.holo"
    broken.write_bytes(content)
    try:
        hologram.load(broken, verify="full")(np.zeros((2, 4), np.float32))
    except (hologram.HologramError, NotImplementedError) as error:
        return str(broken) in str(error)
    return False


def test_every_truncation_is_refused(path, tmp_path):
    content = path.read_bytes()
    for length in range(len(content)):
        assert refused(content[:length], tmp_path), length
    assert refused(content + b"\0", tmp_path)


def test_every_flipped_bit_is_refused(path, tmp_path):
    content = path.read_bytes()
    used = sorted(padding_free(content))
    for at in used:
        for bit in range(8):
            broken = bytearray(content)
            broken[at] ^= 1 << bit
            # The minor version and what it may add are read by this version.
            assert refused(bytes(broken), tmp_path) or at in (6, 7), (at, bit)


def padding_free(content):
    """Positions of bytes that say something."""
    _, _, _, _, index, index_bytes, _ = struct.unpack("<4sHHQQQ32s", content[:64])
    weight = content.index(WEIGHT.tobytes())
    graph = content.index(b"graph(")
    text = content.index(b"return", graph)
    yield from range(64)
    yield from range(weight, weight + WEIGHT.nbytes)
    yield from range(graph, content.index(b"\n", text) + 1)
    yield from range(index, index + index_bytes)


def test_a_later_version_is_refused_by_name(path, tmp_path):
    content = bytearray(path.read_bytes())
    content[4] = 2
    (tmp_path / "later.holo").write_bytes(content)
    with pytest.raises(NotImplementedError, match="version 2.0 .* reads version 1"):
        hologram.load(tmp_path / "later.holo")


@pytest.mark.parametrize(
    "change, words",
    [
        ({"parameters": [("input", 0), ("tensor", 1)]}, "a tensor that is not there"),
        ({"parameters": [("input", 1), ("tensor", 0)]}, "an input that is not there"),
    ],
)
def test_a_contradicting_index_is_not_written(change, words, tmp_path):
    with pytest.raises(RuntimeError, match=words):
        write(tmp_path / "x.holo", **change)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change, words",
    [
        ({"parameters": [("tensor", 0), ("input", 0)]}, "parameter 0"),
        ({"parameters": [("input", 0)]}, "2 parameters, the index names 1"),
        ({"shape": (None, 5)}, "parameter 0"),
        ({"result": (None, 4)}, "result 0"),
        ({"shape": (7, 4)}, "rows|parameter 0"),
    ],
)
def test_an_index_that_contradicts_its_graph_is_refused(change, words, tmp_path):
    write(tmp_path / "x.holo", **change)
    with pytest.raises(hologram.HologramError, match=words):
        hologram.load(tmp_path / "x.holo")(np.zeros((2, 4), np.float32))


@pytest.mark.parametrize(
    "step",
    [
        lambda g, x, s: g.slice(x, [s * s - 5, 0], [1, 4], [1, 1]),
        lambda g, x, s: g.slice(x, [0, 0], [s * s - 1, 4], [1, 1]),
        lambda g, x, s: g.slice(x, [s - 3, 0], [1, 4], [1, 1]),
        lambda g, x, s: g.reshape(x, [s * s]),
        lambda g, x, s: g.expand(g.reshape(g.reduce("reduce_sum", x, [0, 1]), [1]), [s * 2**61]),
        lambda g, x, s: g.expand(g.reshape(g.reduce("reduce_sum", x, [0, 1]), [1]), [s * 2**48]),
    ],
)
def test_a_graph_that_is_wrong_for_the_sizes_of_a_call_is_refused(step, tmp_path):
    """Bounds that hold for some sizes are not known when a graph is read."""
    graph = _core.Graph()
    s0 = graph.new_symbol()
    x = graph.parameter(0, "f32", [s0, 4], [4, 1])
    result = graph.reduce("reduce_sum", step(graph, x, s0), [0])
    graph.output(result, [1] * len(result.shape))
    writer = _core.ArchiveWriter(os.fspath(tmp_path / "x.holo"))
    shape = list(result.shape)
    writer.add_method("forward", graph, [("rows", 1, 1 << 40)], [("x", "f32", [s0, 4])], [("y", "f32", shape)], [["input", 0]], [], "")
    writer.finish()
    model = hologram.load(tmp_path / "x.holo")
    with pytest.raises(ValueError, match="not for these sizes"):
        model(np.ones((2, 4), np.float32))


def test_no_file_a_folder_and_a_pipe(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.holo"):
        hologram.load(tmp_path / "nothing.holo")
    with pytest.raises(OSError, match="regular file"):
        hologram.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular file"):
        hologram.load(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    with pytest.raises(hologram.HologramError, match="no .holo archive"):
        hologram.load(tmp_path / "empty")


def test_a_file_replaced_while_open_is_still_the_one_that_was_opened(path):
    model = hologram.load(path)
    content = path.read_bytes()
    temporary = path.with_suffix(".new")
    temporary.write_bytes(b"\xff" * len(content))
    temporary.replace(path)
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(model(x)[0], x @ WEIGHT)


def test_a_killed_writer_leaves_the_old_file(path):
    before = path.read_bytes()
    program = (
        "import os, sys, signal, numpy as np; from hologram import _core\n"
        "w = _core.ArchiveWriter(sys.argv[1]); a = np.zeros(1 << 20)\n"
        "w.add_tensor('a', 'f64', [a.size], [1], a.ctypes.data, a.nbytes)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, path]).returncode == -9
    assert path.read_bytes() == before


def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path):
    program = (
        "import sys, resource, signal, numpy as np; from hologram import _core\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "w = _core.ArchiveWriter(sys.argv[1]); a = np.zeros(1 << 20)\n"
        "try: w.add_tensor('a', 'f64', [a.size], [1], a.ctypes.data, a.nbytes)\n"
        "except OSError as error: print(error)\n"
        "del w"
    )
    out = subprocess.run([sys.executable, "-c", program, tmp_path / "x.holo"], capture_output=True, text=True, check=True)
    assert "cannot be written: File too large" in out.stdout
    assert not list(tmp_path.iterdir())


# --- the command line
@pytest.fixture
def data(capfd):
    from hologram import cli

    def call(*args, code=0):
        assert cli.main([str(a) for a in args] + ["--json"]) == code
        return json.loads(capfd.readouterr().out)

    return call


def test_run_and_look_at_an_archive_from_the_shell(path, tmp_path, data):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "all.npz", x=x)
    for words in (["x.npy"], ["x=x.npy"], ["all.npz"]):
        words = [w.replace("x.npy", str(tmp_path / "x.npy")).replace("all.npz", str(tmp_path / "all.npz")) for w in words]
        done = data("run", path, *words, "-o", tmp_path / "y.npy", "--repeat", 3)
        assert done["results"] == {"y": {"dtype": "float32", "shape": [2, 3]}} and done["calls"] == 3
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x @ WEIGHT)
    assert data("archive", "info", path)["methods"]["forward"]["sizes"] == {"rows": [1, 1000]}
    assert data("archive", "verify", path)["ok"]
    data("archive", "extract", path, "-o", tmp_path / "w.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "w.npz")["weight"], WEIGHT)


def test_the_shell_names_what_is_wrong(path, tmp_path, data):
    np.save(tmp_path / "x.npy", np.zeros((2, 5), np.float32))
    message = lambda *words: data("run", path, *words, code=1)["error"]["message"]
    assert "expected [rows, 4]" in message(tmp_path / "x.npy")
    assert "no array for x" in message()
    assert "the inputs are x, each once" in message(f"z={tmp_path / 'x.npy'}")
    assert "no method 'other', but forward" in message("--method", "other")
    content = bytearray(path.read_bytes())
    content[content.index(WEIGHT.tobytes())] ^= 1
    path.write_bytes(content)
    assert 'tensor "weight" does not agree' in data("archive", "verify", path, code=1)["error"]["message"]
