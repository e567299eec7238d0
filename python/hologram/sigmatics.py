# hologram/sigmatics.py: the sigil algebra from Python
"""Sigmatics: 96 classes of bytes, expressions and circuits over them.

Classes are numbers 0…95, ``24*h2 + 8*d + l``. Class memory is 96 classes of 3,072 float32, an array of shape
``(96, 3072)``. Mistakes in a text are a :class:`SigmaticsError` (a ``ValueError``) whose ``position`` counts characters from 0;
numbers out of range are a ``ValueError``.

>>> evaluate("mark@c42^+3~@17").addresses
[4442]
>>> compile("copy@c05->c06 . mark@c21 . copy@c05->c06 . mark@c21").canonical_text
'mark@c00'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from hologram import _core

if TYPE_CHECKING:
    import numpy as np

_native: Any = _core.sigmatics

#: A mistake in an expression or circuit; its attribute ``position`` says where.
SigmaticsError: type[ValueError] = _native.SigmaticsError


class Token(NamedTuple):
    """A word of an expression: kind ("CLASS", "DOT", …), text, first character and number of bytes."""

    kind: str
    text: str
    position: int
    length: int


@dataclass(frozen=True)
class Evaluation:
    """What an expression means.

    Attributes:
        bytes: the canonical byte of each operation, from left to right.
        addresses: the belt addresses of the operations with a page; None when none has one.
        classes: the class of each byte.
        words: the operational words, the right-most operation of a sequence first.
    """

    bytes: list[int]
    addresses: list[int] | None
    classes: list[int]
    words: list[str]


@dataclass(frozen=True)
class Operand:
    """A class, or one page (0…47) of it."""

    cls: int
    page: int | None = None


@dataclass(frozen=True)
class Call:
    """One operation on class memory.

    Attributes:
        generator: "mark", "copy", "swap", "merge", "split", "quote" or "evaluate".
        a: the class of mark, quote and evaluate; the source of the others.
        b: the context of merge and split; the other class of swap.
        to: the destination of copy, merge and split.
        variant: merge: Add, Mul, Min, Max (of source and context), Abs, Exp, Log, Sqrt, Sigmoid, Tanh, Gelu (of the source);
            split: Sub, Div.
        range: the classes of a range, instead of operands.
    """

    generator: str
    a: Operand = Operand(0)
    b: Operand = Operand(0)
    to: Operand = Operand(0)
    variant: str = ""
    range: tuple[int, ...] = ()

    def __str__(self) -> str:
        return str(_native.print_call(_plain(self)))


@dataclass(frozen=True)
class CompiledCircuit:
    """A circuit in canonical form.

    Attributes:
        original_ops, canonical_ops: operations before and after.
        reduction_pct: 100 (1 - canonical_ops / original_ops).
        applied_rules: names of the rules in the order in which they fired.
        original_text, canonical_text: the circuit before and after, transforms at the leaves.
        calls: the canonical calls from left to right.
    """

    original_ops: int
    canonical_ops: int
    reduction_pct: float
    applied_rules: list[str]
    original_text: str
    canonical_text: str
    calls: list[Call] = field(repr=False)


@dataclass(frozen=True)
class Effects:
    """What calls do to class memory: ``steps`` in the order in which they act, classes whose quote was never evaluated, and the
    calls recorded for them, which do not run."""

    steps: list[Call]
    unevaluated: list[int]
    recorded: list[Call]


Circuit = Union[str, CompiledCircuit, Sequence[Call]]


def _plain(call: Call) -> dict[str, Any]:
    operands = {name: {"class": o.cls, "page": o.page} for name, o in (("a", call.a), ("b", call.b), ("to", call.to))}
    variant = call.variant or ("Sub" if call.generator == "split" else "Add")
    return {"generator": call.generator, **operands, "variant": variant, "range": list(call.range)}


def _call(data: dict[str, Any]) -> Call:
    a, b, to = (Operand(data[name]["class"], data[name]["page"]) for name in ("a", "b", "to"))
    return Call(str(data["generator"]), a, b, to, str(data["variant"]), tuple(data["range"]))


def _calls(circuit: Circuit) -> list[dict[str, Any]]:
    if isinstance(circuit, str):
        return list(_native.compile(circuit, keep_memory=True)["calls"])
    return [_plain(c) for c in (circuit.calls if isinstance(circuit, CompiledCircuit) else circuit)]


def _effects(data: dict[str, Any]) -> Effects:
    return Effects([_call(c) for c in data["steps"]], list(data["unevaluated"]), [_call(c) for c in data["recorded"]])


# --- expressions


def evaluate(expression: str) -> Evaluation:
    """Bytes, addresses, classes and words of an expression."""
    return Evaluation(**_native.evaluate(expression))


def tokens(text: str, *, circuit: bool = False) -> list[Token]:
    """The words of a text, EOF last; `circuit` also knows ``->``, ``<->``, ``[``, ``]``, ``,`` and ``..``."""
    return [Token(*t) for t in _native.tokens(text, circuit)]


def normalize(expression: str) -> str:
    """The same expression with every transform at its leaves: the same bytes, and a fixed point."""
    return str(_native.normalize(expression))


def exact_words(expression: str) -> list[str]:
    """Words that can be carried out one by one: each prefix states its own shifts and undoes them by their inverses."""
    return list(_native.exact_words(expression))


def pretty(expression: str) -> str:
    """Text, bytes, addresses and words of an expression for people."""
    return str(_native.pretty(expression))


# --- circuits


def compile(circuit: str, *, keep_memory: bool = False) -> CompiledCircuit:
    """Canonical form of a circuit.

    The rules are exact on the gates' 2 × 2 matrices and treat class 6 as the gates' own. With `keep_memory` only those apply that
    keep every byte of class memory; :func:`run` uses these.
    """
    data = dict(_native.compile(circuit, keep_memory))
    calls = [_call(c) for c in data.pop("calls")]
    data.pop("original_calls")
    return CompiledCircuit(**data, calls=calls)


def effects(circuit: Circuit) -> Effects:
    """What a circuit does to class memory once ranges are expanded and quotes carried out."""
    return _effects(_native.effects(_calls(circuit)))


def atlas(circuit: Circuit) -> list[str]:
    """The Atlas programs, as text, that a circuit runs on class memory."""
    return list(_native.atlas_text(_calls(circuit)))


def run(circuit: Circuit, memory: np.ndarray, *, backend: str = "cpu") -> Effects:
    """Runs a circuit on class memory, in place.

    Args:
        circuit: text, a compiled circuit, or calls.
        memory: float32 of shape (96, 3072), contiguous.
        backend: "cpu" or "interp"; the bits are the same.

    Returns:
        the effects, quotes that were never evaluated among them.
    """
    if getattr(memory, "dtype", None) != "float32" or memory.shape != (96, 3072) or not memory.flags.c_contiguous:
        raise ValueError("run: class memory must be a contiguous float32 array of shape (96, 3072)")
    return _effects(_native.run(_calls(circuit), memory, _core.Runtime(backend)))


def gate_rules() -> list[tuple[str, str, str]]:
    """The rules on gates: name, word and what it becomes, in the letters I, X, Z, S and C (copy c05->c06)."""
    return [(str(n), str(f), str(t)) for n, f, t in _native.gate_rules()]


# --- classes


def class_index(h2: int, d: int, l: int) -> int:
    """``24*h2 + 8*d + l``."""
    return int(_native.class_index(h2, d, l))


def class_parts(cls: int) -> tuple[int, int, int]:
    """(h2, d, l) of a class."""
    h2, d, l = _native.class_parts(cls)
    return h2, d, l


def class_of_byte(byte: int) -> int:
    """The class of a byte 0…255."""
    return int(_native.class_of_byte(byte))


def canonical_byte(cls: int) -> int:
    """The least byte of a class."""
    return int(_native.canonical_byte(cls))


def members(cls: int) -> list[int]:
    """Every byte of a class, ascending."""
    return list(_native.members(cls))


def equivalent(byte: int, other: int) -> bool:
    """Whether two bytes have the same class."""
    return bool(_native.equivalent(byte, other))


def belt_address(page: int, byte: int) -> int:
    """``256*page + byte``, for page 0…47 and byte 0…255."""
    return int(_native.belt_address(page, byte))


def belt_place(address: int) -> tuple[int, int]:
    """(page, byte) of a belt address 0…12287."""
    page, byte = _native.belt_place(address)
    return page, byte


def classes_for(length: int, first: int = 0) -> range:
    """The classes from `first` on that hold `length` float32 values, 3,072 in each."""
    start, count = _native.classes_for(length, first)
    return range(start, start + count)


def transform(cls: int, *, r: int = 0, d: int = 0, t: int = 0, mirror: bool = False) -> int:
    """The class after R+r, D+d, T+t and, if `mirror`, ``~``."""
    return int(_native.transform(cls, r, d, t, mirror))


def mirror(cls: int) -> int:
    """The class across the Atlas graph's mirror (bit e7 flipped)."""
    return int(_native.mirror(cls))


def modality_mirror(cls: int) -> int:
    """d 1 ↔ 2: what ``~`` does."""
    return int(_native.modality_mirror(cls))


def complement(cls: int) -> int:
    """95 - class."""
    return int(_native.complement(cls))


def triality_orbit(cls: int) -> tuple[int, int, int]:
    """The three classes with the same h2 and l."""
    a, b, c = _native.triality_orbit(cls)
    return a, b, c


def neighbours(cls: int) -> list[int]:
    """Neighbours of a class in the Atlas graph, ascending: 5 or 6."""
    return list(_native.neighbours(cls))


def describe_class(cls: int) -> str:
    """The class, its parts and its canonical byte as text."""
    return str(_native.describe_class(cls))


def edges() -> Iterable[tuple[int, int]]:
    """The 256 edges of the Atlas graph, smaller class first."""
    return ((a, b) for a in range(96) for b in neighbours(a) if a < b)
