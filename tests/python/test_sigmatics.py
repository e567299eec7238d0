# tests/python/test_sigmatics.py: the sigil algebra from Python, and known values of it
import json
from pathlib import Path

import numpy as np
import pytest
from checks import refuses

from hologram import sigmatics
from hologram._commands.sigmatics import call_data

DATA = json.loads((Path(__file__).parent.parent / "data" / "sigmatics.json").read_text())


@pytest.mark.parametrize("row", DATA["expressions"], ids=lambda r: r["text"])
def test_expressions_mean_what_is_known(row):
    e = sigmatics.evaluate(row["text"])
    assert {"text": row["text"], "bytes": e.bytes, "addresses": e.addresses, "classes": e.classes, "words": e.words} == row
    assert sigmatics.evaluate(sigmatics.normalize(row["text"])).bytes == e.bytes


@pytest.mark.parametrize("row", DATA["mistakes"], ids=lambda r: r["text"])
def test_mistakes_in_expressions_say_what_and_where(row):
    with pytest.raises(sigmatics.SigmaticsError) as raised:
        sigmatics.evaluate(row["text"])
    assert str(raised.value) == row["message"]
    assert f"position {raised.value.position}" in row["message"]


@pytest.mark.parametrize("row", DATA["tokens"], ids=lambda r: r["text"])
def test_tokens(row):
    assert [list(t) for t in sigmatics.tokens(row["text"])] == row["tokens"]


@pytest.mark.parametrize("row", DATA["circuits"], ids=lambda r: r["text"])
def test_circuits_become_what_is_known(row):
    c = sigmatics.compile(row["text"])
    got = {name: getattr(c, name) for name in row if name not in ("text", "calls")}
    assert {"text": row["text"], **got, "calls": [call_data(x) for x in c.calls]} == row


@pytest.mark.parametrize("row", DATA["circuit_mistakes"], ids=lambda r: r["text"])
def test_mistakes_in_circuits(row):
    with pytest.raises(sigmatics.SigmaticsError) as raised:
        sigmatics.compile(row["text"])
    assert str(raised.value).startswith(row["begins"])


def test_classes_agree_with_the_table():
    assert [sigmatics.class_of_byte(b) for b in range(256)] == DATA["class_of_byte"]
    for c in range(96):
        assert sigmatics.class_index(*sigmatics.class_parts(c)) == c
        assert sigmatics.canonical_byte(c) == min(sigmatics.members(c)) == DATA["class_of_byte"].index(c)


def test_the_graph_and_its_three_mirrors():
    assert [sigmatics.neighbours(c) for c in range(96)] == DATA["neighbours"]
    assert [sigmatics.mirror(c) for c in range(96)] == DATA["mirror"]
    edges = list(sigmatics.edges())
    assert len(edges) == len(set(edges)) == 256
    assert sorted(len(sigmatics.neighbours(c)) for c in range(96)) == [5] * 64 + [6] * 32
    for c in range(96):
        for mirror in (sigmatics.mirror, sigmatics.modality_mirror, sigmatics.complement):
            assert mirror(mirror(c)) == c
        assert sigmatics.mirror(c) != c and sigmatics.mirror(c) not in sigmatics.neighbours(c)
        assert sigmatics.modality_mirror(c) == sigmatics.transform(c, mirror=True)
        assert all(c in sigmatics.neighbours(n) for n in sigmatics.neighbours(c))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sigmatics.belt_address(0, 256), "Byte 256 out of range [0..255]"),
        (lambda: sigmatics.belt_address(48, 0), "Page index 48 out of range [0..47]"),
        (lambda: sigmatics.belt_place(12288), "Address 12288 out of range [0..12287]"),
        (lambda: sigmatics.class_of_byte(256), "Byte 256 out of range [0..255]"),
        (lambda: sigmatics.complement(96), "Class index 96 out of range [0..95]"),
        (lambda: sigmatics.belt_place(-1), "Address -1 out of range [0..12287]"),
        (lambda: sigmatics.canonical_byte(-1), "Class index -1 out of range [0..95]"),
        (lambda: sigmatics.transform(96, d=1), "Class index 96 out of range [0..95]"),
        (lambda: sigmatics.neighbours(96), "Class index 96 out of range [0..95]"),
        (lambda: sigmatics.classes_for(1, 96), "Class index 96 out of range [0..95]"),
        (lambda: sigmatics.mirror(-1), "Class index -1 out of range [0..95]"),
    ],
)
def test_ranges_are_checked(call, message):
    with pytest.raises(ValueError, match="out of range") as raised:
        call()
    assert str(raised.value) == message


def test_belt_addresses():
    assert sigmatics.belt_address(17, 46) == 4398
    assert all(sigmatics.belt_place(sigmatics.belt_address(p, b)) == (p, b) for p in range(48) for b in range(256))


def test_vectors_take_neighbouring_classes():
    for values, first, count in ((1, 0, 1), (3072, 0, 1), (3073, 5, 2), (10_000, 0, 4), (100_000, 0, 33), (294_912, 0, 96)):
        assert sigmatics.classes_for(values, first) == range(first, first + count)
    refuses(ValueError, "InsufficientClasses: 294913 values need 97 classes; 96 from class 0 on", lambda: sigmatics.classes_for(294_913))


def memory(seed=0):
    return np.random.default_rng(seed).standard_normal((96, 3072)).astype(np.float32)


@pytest.mark.parametrize("backend", ["cpu", "interp", "null"])
def test_circuits_run_on_class_memory(backend):
    m = memory()
    expected = m.copy()
    expected[2] = expected[1]
    expected[[3, 4]] = expected[[4, 3]]
    expected[7] = expected[3] + expected[2]
    expected[8] = expected[7] - expected[3]
    expected[9, 128:192] = expected[1, 128:192]
    text = "copy@c1->c2 . swap@c3<->c4 || merge@c3[c2,c7] . split@c7[c3,c8] . mark@c21 . copy@c1@2->c9"
    effects = sigmatics.run(text, m, backend=backend)
    np.testing.assert_array_equal(m, expected)
    assert effects.unevaluated == [] and len(effects.steps) == 5


def test_calls_have_variants():
    m = memory()
    expected = np.maximum(m[1], m[2])
    call = sigmatics.Call("merge", sigmatics.Operand(1), sigmatics.Operand(2), sigmatics.Operand(3), "Max")
    sigmatics.run([call], m)
    np.testing.assert_array_equal(m[3], expected)
    refuses(ValueError, "no variant Div", lambda: sigmatics.run([sigmatics.Call("merge", variant="Div")], m))


def test_class_memory_is_checked_and_need_not_be_aligned():
    refuses(ValueError, "class memory", lambda: sigmatics.run("mark@c1", np.zeros((96, 3072))))
    refuses(ValueError, "class memory", lambda: sigmatics.run("mark@c1", memory()[:, ::2]))
    raw = np.zeros(96 * 3072 + 1, np.float32)
    m = raw[1:].reshape(96, 3072)
    m[1] = 5
    sigmatics.run("copy@c1->c2", m)
    assert (m[2] == 5).all() and (m[3] == 0).all()


def test_atlas_programs_of_a_circuit():
    assert sigmatics.atlas("mark@c21") == []
    (program,) = sigmatics.atlas("copy@c1->c2 . merge@c2[c1,c3]")
    assert program.startswith("atlas block 1") and program.count("load") == 1


def test_positions_count_characters():
    with pytest.raises(sigmatics.SigmaticsError) as raised:
        sigmatics.evaluate("// ρτμ\n mark@c96")
    assert raised.value.position == 13
