# tests/python/test_archived_loops.py: archives whose graphs repeat a step, and those that contradict themselves
import hashlib
import os
import random
import struct

import hologram
import numpy as np
import pytest
from checks import refuses
from hologram import _core

START = np.arange(4, dtype=np.float32)


def step_graph(width=4, sequence=4, second=None, strides=(1,), more=None):
    """x + state, the state of the next step."""
    graph = _core.Graph()
    x, state = graph.parameter(0, "f32", [sequence], [1]), graph.parameter(1, "f32", [width], [1])
    graph.output(graph.elementwise("add", [x, state]) if second is None else second(graph, x, state), list(strides))
    if more is not None:
        graph.output(more(graph, x), [])
    return graph


def write(path, roles=(("each", -1), ("carry", 0)), results=(0,), steps=None, sizes=(), descending=False, step=None, calls=1, callee=0,
          result_strides=(4, 1), timing=0, state="tensor"):  # fmt: skip
    """An archive of running sums: rows of x of s0 × 4, the first added to START."""
    graph = _core.Graph()
    s0 = graph.new_symbol()
    x, start = graph.parameter(0, "f32", [s0, 4], [4, 1]), graph.parameter(1, "f32", [4], [1])
    for _ in range(calls):
        token = graph.make("host_call", [x, start], ints=[0, timing], exprs=[], text="running sum")
        x = graph.make("host_result", [token], ints=[0], exprs=list(result_strides), dtype="f32", shape=[s0, 4])
    graph.output(x, [4, 1])
    writer = _core.ArchiveWriter(os.fspath(path))
    writer.add_tensor("start", "f32", [4], [1], START.ctypes.data, START.nbytes)
    method = writer.add_method(
        "forward", graph, [("rows", 1, 1000)], [("x", "f32", [s0, 4])], [("y", "f32", [s0, 4])], [["input", 0], ["tensor", 0]], [], ""
    )
    writer.add_loop(method, callee, step or step_graph(), list(roles), list(results), s0 if steps is None else steps(s0),
                    [size(s0) for size in sizes], descending)  # fmt: skip
    return writer.finish()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "loop.holo"


@pytest.mark.parametrize("backend", ["cpu", "interp", "null"])
@pytest.mark.parametrize("descending", [False, True])
def test_call(path, descending, backend):
    write(path, descending=descending)
    model = hologram.load(path, backend=backend)
    for rows in (1, 2, 50):
        x = np.random.default_rng(rows).integers(-9, 9, (rows, 4)).astype(np.float32)
        expected = START + (np.cumsum(x[::-1], 0)[::-1] if descending else np.cumsum(x, 0))
        np.testing.assert_array_equal(model(x)[0], expected)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"roles": [("each", -1)]}, "2 parameters and 0 sizes, the index names 1 and 0"),
        ({"roles": [("each", -1), ("carry", 0), ("fixed", -1)]}, "a loop has 3 operands, its call 2"),
        ({"roles": [("each", -1), ("carry", 1)]}, "continues result 1"),
        ({"roles": [("each", -1), ("carry", -1)]}, "continues result -1"),
        ({"roles": [("fixed", -1), ("carry", 0)]}, "operand 0 of a loop is another array"),
        ({"roles": [("each", -1), ("each", -1)]}, "operand 1 of a loop is another array"),
        ({"results": [1]}, "gives result 1, which is not there"),
        ({"results": [-1]}, "result 0 of a loop comes from nowhere"),
        ({"results": []}, "a loop has no result 0"),
        ({"steps": lambda s: s + 1}, "operand 0 of a loop is another array"),
        ({"steps": lambda s: 2}, "operand 0 of a loop is another array"),
        ({"step": step_graph(width=5, sequence=5)}, "operand 0 of a loop is another array|is another array than its step's"),
        ({"step": step_graph(sequence=1, second=lambda g, x, h: g.elementwise("add", [g.expand(x, [4]), h]))}, "operand 0 of a loop"),
        ({"step": step_graph(second=lambda g, x, h: g.cast(g.elementwise("add", [x, h]), "f64"))}, "another array than"),
        ({"step": step_graph(second=lambda g, x, h: g.reduce("reduce_sum", x, [0]), strides=[])}, "than its step's"),
        ({"step": step_graph(more=lambda g, x: g.reduce("reduce_sum", x, [0])), "roles": [("each", -1), ("carry", 1)]},
         "than the result that it continues"),
        ({"step": step_graph(strides=[2])}, "writes elsewhere than into its results"),
        ({"calls": 2}, "2 calls of one loop"),
        ({"callee": 1}, "operation running sum needs PyTorch"),
        ({"result_strides": (1, 4)}, "no array in row-major order"),
        ({"timing": 1}, "operands, its call"),
    ],
)
def test_loops_that_contradict_their_calls_are_refused(change, words, path):
    write(path, **change)
    refuses((hologram.HologramError, NotImplementedError), words, lambda: hologram.load(path)(np.zeros((2, 4), np.float32)))


def test_host_calls_in_a_step_are_refused(path):
    def inner(graph, x, state):
        token = graph.make("host_call", [x], ints=[0, 0], exprs=[], text="inner")
        return graph.make("host_result", [token], ints=[0], exprs=[1], dtype="f32", shape=[4])

    write(path, step=step_graph(second=inner))
    refuses(hologram.HologramError, "operation host_(call|result) in a loop", lambda: hologram.load(path)(np.zeros((2, 4), np.float32)))


def test_sizes_for_which_a_step_is_wrong_are_refused(path):
    """The step takes a part that is there for some sizes alone."""
    step = _core.Graph()
    n = step.new_symbol()
    x, state = step.parameter(0, "f32", [4], [1]), step.parameter(1, "f32", [4], [1])
    step.output(step.elementwise("add", [state, step.slice(x, [n - 3], [4], [1])]), [1])
    write(path, step=step, sizes=[lambda s: s])
    model = hologram.load(path)
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(model(x)[0], START + np.cumsum(x, 0))
    for rows in (2, 4):
        refuses(ValueError, "not for these sizes", lambda: model(np.ones((rows, 4), np.float32)))


def digest(part):
    return hashlib.blake2b(bytes(part), digest_size=32).digest()


def test_hostile_changes_with_right_checksums_end_in_errors_or_results(path, tmp_path):
    """Checksums keep nobody from writing what they like: what the index and the graphs say is checked itself."""
    write(path)
    content = path.read_bytes()
    (index,) = struct.unpack("<Q", content[16:24])
    texts = (_core.Archive.open(os.fspath(path)).graph("forward"), str(step_graph()))
    graphs = [(content.index(text.encode()), content.index(text.encode()) + len(text)) for text in texts]
    sections = {(begin, end): digest(content[begin:end]) for begin, end in graphs}
    assert all(content[index:].count(hashed) == 1 for hashed in sections.values())
    draw, broken, ended = random.Random(1), tmp_path / "broken.holo", {"refused": 0, "ran": 0}
    for _ in range(600):
        changed = bytearray(content)
        begin, end = draw.choice([*graphs, (index, len(content))])
        for _ in range(draw.choice((1, 1, 2))):
            at = draw.randrange(begin, end)
            changed[at] = draw.choice((changed[at] ^ 1 << draw.randrange(8), draw.choice(b"0123456789sx,[]%-")))
        for (first, last), hashed in sections.items():
            changed[index:] = changed[index:].replace(hashed, digest(changed[first:last]))
        changed[32:64] = digest(changed[index:])
        broken.write_bytes(changed)
        try:
            hologram.load(broken)(np.zeros((3, 4), np.float32))
            ended["ran"] += 1
        except (hologram.HologramError, NotImplementedError, ValueError, TypeError, MemoryError):
            ended["refused"] += 1
    assert ended["refused"] > 400 and ended["ran"] > 2, ended
