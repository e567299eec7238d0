# tests/python/test_archive.py: files that are no sound archive
import contextlib
import hashlib
import json
import os
import struct

import hologram
import numpy as np
import pytest
from checks import python, refuses
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


def arguments(*trees):
    return json.dumps({"arguments": [[f"x{i}", tree] for i, tree in enumerate(trees)]})


ODD = ["{", "[1]", '{"arguments": [1]}', '{"torch": 5}', '{"torch": [{}]}', '{"torch": [{"operator": [1, 2]}]}',
       '{"outputs": {"result": 1}}', '{"outputs": {"result": true}}', '{"outputs": {"tuple": {}}}', '{"outputs": {}}',
       '{"arguments": [["\\u001b[2J", {"input": 0}]]}', '{"arguments": [[["x"], {"input": 0}]]}', "[" * 100000,
       arguments(), arguments({"input": 1}), arguments({"input": -1}), arguments({"input": 0}, {"input": 0}),
       arguments({"dict": [{"input": 0}]}), arguments({"value": {"input": 0}}), arguments({"tuple": "input"}),
       arguments({"input": 0, "value": 1}), arguments({"set": [{"input": 0}]})]  # fmt: skip


@pytest.mark.parametrize("structure", ODD, ids=lambda s: s[:40])
def test_nesting_that_says_nothing(structure, tmp_path):
    write(tmp_path / "odd.holo", structure=structure)
    with pytest.raises(hologram.HologramError, match=r'odd.holo: method "forward": nesting that cannot be read'):
        hologram.load(tmp_path / "odd.holo")


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


def test_flipped_bits_of_every_byte_are_refused(path, tmp_path):
    content = path.read_bytes()
    for at in sorted(padding_free(content)):
        for bit in range(8) if at < 64 else (at % 8,):  # checksums know no bits
            broken = bytearray(content)
            broken[at] ^= 1 << bit
            # The minor version and what it may add are read by this version.
            assert refused(bytes(broken), tmp_path) or at in (6, 7), (at, bit)


def with_checksums(content):
    """Whoever writes a hostile file makes its checksums right."""
    (index,) = struct.unpack("<Q", content[16:24])
    return content[:32] + hashlib.blake2b(content[index:], digest_size=32).digest() + content[64:]


def is_harmless(content, path):
    """Whether everything that one does with a file ends in an error that names it, or in values."""
    path.write_bytes(content)
    x = np.zeros((2, 4), np.float32)
    try:
        model = hologram.load(path, trust=False)
        assert str(model.info()).isprintable() and sum(t.size for t in model.tensors.values()) <= 12
        for method in model.session().methods.values():
            with contextlib.suppress(ValueError):  # of the call: another size or dtype than the index now asks for
                method.flat([x] * len(method.inputs))
        model.verify()
    except (hologram.HologramError, NotImplementedError) as error:
        return str(path) in str(error) and str(error).isprintable()
    return True


def test_every_flipped_bit_of_an_index_with_the_right_checksum_is_harmless(path, tmp_path):
    content = path.read_bytes()
    (index,) = struct.unpack("<Q", content[16:24])
    for at in range(index, len(content)):
        for bit in range(8):
            broken = bytearray(content)
            broken[at] ^= 1 << bit
            assert is_harmless(with_checksums(bytes(broken)), tmp_path / "broken.holo"), (at - index, bit)


def test_flipped_bits_of_a_graph_with_the_right_checksums_are_harmless(path, tmp_path):
    content = path.read_bytes()
    (index,) = struct.unpack("<Q", content[16:24])
    begin = content.index(b"graph(")
    graph = content[begin : content.index(b"\n", content.index(b"return", begin)) + 1]
    digest = lambda part: hashlib.blake2b(part, digest_size=32).digest()
    assert digest(graph) in content[index:]
    for at in range(len(graph)):
        for bit in (at % 4, at % 4 + 4):
            broken = graph[:at] + bytes([graph[at] ^ 1 << bit]) + graph[at + 1 :]
            changed = content[:begin] + broken + content[begin + len(graph) :]
            changed = changed[:index] + changed[index:].replace(digest(graph), digest(broken))
            assert is_harmless(with_checksums(changed), tmp_path / "broken.holo"), (at, bit)


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
    refuses(NotImplementedError, "version 2.0 .* reads version 1", lambda: hologram.load(tmp_path / "later.holo"))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"parameters": [("input", 0), ("tensor", 1)]}, "a tensor that is not there"),
        ({"parameters": [("input", 1), ("tensor", 0)]}, "an input that is not there"),
    ],
)
def test_a_contradicting_index_is_not_written(change, words, tmp_path):
    refuses(RuntimeError, words, lambda: write(tmp_path / "x.holo", **change))
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
    refuses(hologram.HologramError, words, lambda: hologram.load(tmp_path / "x.holo")(np.zeros((2, 4), np.float32)))


def test_no_file_a_folder_and_a_pipe(tmp_path):
    refuses(FileNotFoundError, "nothing.holo", lambda: hologram.load(tmp_path / "nothing.holo"))
    refuses(OSError, "regular file", lambda: hologram.load(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    refuses(OSError, "regular file", lambda: hologram.load(tmp_path / "pipe"))
    (tmp_path / "empty").touch()
    refuses(hologram.HologramError, "no .holo archive", lambda: hologram.load(tmp_path / "empty"))


def test_a_file_replaced_while_open_is_still_the_one_that_was_opened(path):
    model = hologram.load(path)
    content = path.read_bytes()
    temporary = path.with_suffix(".new")
    temporary.write_bytes(b"\xff" * len(content))
    temporary.replace(path)
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(model(x)[0], x @ WEIGHT)


def test_a_graph_that_is_changed_in_place_is_not_the_one_that_was_compared(path):
    model = hologram.load(path)
    with open(path, "r+b") as file:
        file.seek(path.read_bytes().index(b"= mul ") + 2)
        file.write(b"sub")
    with pytest.raises(hologram.HologramError, match=r"small.holo: .*section \d+ does not agree with its checksum"):
        model(np.ones((2, 4), np.float32))


# python -c PROGRAM FILE: writes it, and one that is not there yet, in processes that the system ends at a byte of it, and says what is
# there afterwards.
KILLED = """
import hashlib, os, resource, signal, sys, numpy as np
from hologram import _core
a = np.arange(9000.)
def write(path):
    w = _core.ArchiveWriter(path)
    w.add_tensor('a', 'f64', [a.size], [1], a.ctypes.data, a.nbytes)
    w.finish()
write(sys.argv[1] + '.whole')
size = os.path.getsize(sys.argv[1] + '.whole')
def content(path):
    return open(path, 'rb').read() if os.path.exists(path) else None
for limit in (*range(0, size, 1777), *range(size - 200, size, 13), size - 1, size):
    for name in (sys.argv[1], sys.argv[1] + '.new'):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            write(name)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        before = content(sys.argv[1] + '.old') if name == sys.argv[1] else None
        print(code, content(name) == (content(sys.argv[1] + '.whole') if code == 0 else before))
"""


def test_a_writer_killed_at_any_byte_leaves_the_old_file_or_none(path):
    path.with_name("small.holo.old").write_bytes(path.read_bytes())
    lines = python("-c", KILLED, path).splitlines()
    assert len(lines) > 100 and set(lines[:-2]) == {"-25 True"} and lines[-2:] == ["0 True"] * 2  # SIGXFSZ


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
    assert "cannot be written: File too large" in python("-c", program, tmp_path / "x.holo") and not list(tmp_path.iterdir())


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


def test_code_is_added_checked_and_trusted_from_the_shell(path, tmp_path, data, monkeypatch):
    monkeypatch.setenv("HOLOGRAM_TRUSTED", "trusted")  # in the working folder
    monkeypatch.chdir(tmp_path)
    more = tmp_path / "more.holo"
    trusted = lambda: data("archive", "info", more)["trusted"]
    added = data("archive", "add-target", path, "sse42", "avx2", "-o", more)
    assert {t.split()[1] for t in added["targets"]} == {"sse42", "avx2"} and not trusted()
    assert data("archive", "verify", more, "--rebuild")["rebuilt"] == added["targets"]
    assert data("archive", "trust", more)["trusted"] == added["fingerprint"] and trusted()
    again = data("archive", "add-target", more, "avx512")  # in place, and trusted as it was
    assert len(again["targets"]) > len(added["targets"]) and again["fingerprint"] != added["fingerprint"] and trusted()
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(hologram.load(more)(x)[0], x @ WEIGHT)
    content = more.read_bytes()
    assert "is no instruction set" in data("archive", "add-target", more, "mmx", code=1)["error"]["message"]
    assert more.read_bytes() == content and {p.name for p in tmp_path.iterdir()} == {"small.holo", "more.holo", "trusted"}


def test_names_of_tensors_are_no_paths(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer = _core.ArchiveWriter("x.holo")
    for name in ("file", "a/b", "../escaped", "/escaped"):
        writer.add_tensor(name, "f32", [4, 3], [3, 1], WEIGHT.ctypes.data, WEIGHT.nbytes)
    writer.finish()
    assert data("archive", "extract", "x.holo", "file", "a/b", "-o", "out")["output"] == "out.npz"
    with np.load("out.npz") as file:
        assert sorted(file.files) == ["a/b", "file"]
        np.testing.assert_array_equal(file["file"], WEIGHT)
    before = (tmp_path / "out.npz").read_bytes()
    for name in ("../escaped", "/escaped"):
        message = data("archive", "extract", "x.holo", "file", name, "-o", "out.npz", code=1)["error"]["message"]
        assert f"the name {name!r} would leave the folder" in message
    assert (tmp_path / "out.npz").read_bytes() == before and len(list(tmp_path.iterdir())) == 2


def test_the_shell_names_what_is_wrong(path, tmp_path, data):
    np.save(tmp_path / "x.npy", np.zeros((2, 5), np.float32))
    message = lambda *words: data("run", path, *words, code=1)["error"]["message"]
    assert "expected [rows, 4]" in message(tmp_path / "x.npy")
    assert "no array for x" in message()
    assert "the inputs are x, each once" in message(f"z={tmp_path / 'x.npy'}")
    assert "no method 'other', but forward" in message("--method", "other")
    for name, content in (("x.npy", b""), ("x.npy", b"words"), ("x.npz", b"PK\3\4 of nothing")):
        (tmp_path / name).write_bytes(content)
        assert f"{name}: expected a .npy or .npz file" in message(tmp_path / name)
    content = bytearray(path.read_bytes())
    content[content.index(WEIGHT.tobytes())] ^= 1
    path.write_bytes(content)
    assert 'tensor "weight" does not agree' in data("archive", "verify", path, code=1)["error"]["message"]
