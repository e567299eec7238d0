"""``hologram sigmatics``: expressions and circuits."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from hologram import _core, sigmatics
from hologram._commands.common import add, group, integer, read_array, read_text, show

TEXT = {"metavar": "EXPR", "help": "the text, or - for standard input"}
CIRCUIT = {"metavar": "CIRCUIT", "help": "the text, or - for standard input"}


def call_data(call: sigmatics.Call) -> dict[str, Any]:
    """A call as the command line prints it: the operation and its classes; of a range the first and the last."""
    name = call.generator.capitalize()
    if call.range:
        return {"op": f"{name}Range", "start": call.range[0], "end": call.range[-1]}
    if call.generator == "copy":
        return {"op": name, "src": call.a.cls, "dst": call.to.cls}
    if call.generator == "swap":
        return {"op": name, "a": call.a.cls, "b": call.b.cls}
    if call.generator in ("merge", "split"):
        return {"op": name, "src": call.a.cls, "context": call.b.cls, "dst": call.to.cls, "variant": call.variant}
    return {"op": name, "class": call.a.cls}


def _evaluate(args: argparse.Namespace) -> int:
    e = sigmatics.evaluate(read_text(args.text))
    if args.json:
        show({"bytes": e.bytes, "addresses": e.addresses, "classes": e.classes, "words": e.words}, True)
        return 0
    print("bytes     ", " ".join(f"0x{b:02X}" for b in e.bytes))
    if e.addresses is not None:
        print("addresses ", ", ".join(map(str, e.addresses)))
    print("classes   ", ", ".join(map(str, e.classes)))
    print("words")
    for word in e.words:
        print(f"  {word}")
    return 0


def _tokens(args: argparse.Namespace) -> int:
    tokens = sigmatics.tokens(read_text(args.text), circuit=args.circuit)
    if args.json:
        show({"tokens": [list(t) for t in tokens]}, True)
        return 0
    for t in tokens:
        print(f"{t.position:>5}  {t.kind:<9} {t.text}")
    return 0


def _counts(c: sigmatics.CompiledCircuit) -> dict[str, Any]:
    return {
        "original_ops": c.original_ops,
        "canonical_ops": c.canonical_ops,
        "reduction_pct": c.reduction_pct,
        "applied_rules": c.applied_rules,
        "canonical_text": c.canonical_text,
    }


def _compile(args: argparse.Namespace) -> int:
    c = sigmatics.compile(read_text(args.text), keep_memory=args.keep_memory)
    show({**_counts(c), "calls": [call_data(x) if args.json else str(x) for x in c.calls]}, args.json)
    return 0


def _canonical(args: argparse.Namespace) -> int:
    text = read_text(args.text)
    if args.expression:
        show({"canonical_text": sigmatics.normalize(text)}, args.json)
    else:
        show(_counts(sigmatics.compile(text, keep_memory=args.keep_memory)), args.json)
    return 0


def _bytes(args: argparse.Namespace) -> int:
    values = sigmatics.evaluate(read_text(args.text)).bytes
    if args.json:
        show({"bytes": values}, True)
    else:
        print(" ".join(f"0x{b:02X}" for b in values))
    return 0


def _address(args: argparse.Namespace) -> int:
    address = sigmatics.belt_address(integer(args.page, "PAGE"), integer(args.byte, "BYTE"))
    if args.json:
        show({"address": address}, True)
    else:
        print(address)
    return 0


def _run(args: argparse.Namespace) -> int:
    memory = read_array(args.input) if args.input else np.zeros((96, 3072), np.float32)
    effects = sigmatics.run(read_text(args.text), memory, backend=args.backend)
    if args.output:
        np.save(args.output, memory, allow_pickle=False)
    data = {
        "ok": True,
        "backend": args.backend,
        "steps": [str(c) for c in effects.steps],
        "unevaluated": effects.unevaluated,
        "recorded": [str(c) for c in effects.recorded],
    }
    show(data, args.json)
    return 0


def _explain_circuit(text: str) -> str:
    c = sigmatics.compile(text)
    effects = sigmatics.effects(text)
    lines = [
        f"Circuit: {c.original_text}",
        f"Operations: {c.original_ops} -> {c.canonical_ops} ({c.reduction_pct:g} %)",
        f"Rules: {', '.join(c.applied_rules) or 'none'}",
        f"Canonical: {c.canonical_text}",
        "On class memory:",
        *(f"  {step}" for step in effects.steps),
    ]
    if effects.unevaluated:
        lines.append(f"Quoted and never evaluated: {', '.join(f'c{k:02}' for k in effects.unevaluated)}")
    for k, program in enumerate(sigmatics.atlas(text)):
        lines += [f"Atlas program {k}:", *(f"  {line}" for line in program.splitlines())]
    return "\n".join(lines)


def _explain_expression(text: str) -> str:
    classes = "\n".join(f"  {sigmatics.describe_class(c)}" for c in sigmatics.evaluate(text).classes)
    words = "\n".join(f"  {w}" for w in sigmatics.exact_words(text))
    return (
        f"{sigmatics.pretty(text)}\n\nClasses:\n{classes}\n\nNormal form:\n  {sigmatics.normalize(text)}\n\n"
        f"Words to carry out:\n{words}"
    )


def _explain(args: argparse.Namespace) -> int:
    text = read_text(args.text)
    try:
        shown = _explain_expression(text)
    except sigmatics.SigmaticsError:
        shown = _explain_circuit(text)  # its mistake is the one to report
    if args.json:
        show({"text": shown}, True)
    else:
        print(shown)
    return 0


def register(commands: Any) -> None:
    """Adds the group to the command line."""
    actions = group(commands, "sigmatics", "Expressions and circuits of the sigil algebra.")
    add(actions, "eval", _evaluate, "Bytes, belt addresses, classes and words of an expression.", ("text", TEXT))
    tokens = add(actions, "tokens", _tokens, "The words of a text and where they stand.", ("text", TEXT))
    tokens.add_argument("--circuit", action="store_true", help="read it as a circuit")
    memory = ("--keep-memory", {"action": "store_true", "help": "only rules that keep every byte of class memory"})
    add(actions, "compile", _compile, "Canonical form and calls of a circuit.", ("text", CIRCUIT), memory)
    canonical = add(actions, "canon", _canonical, "Canonical form of a circuit, with counts.", ("text", CIRCUIT), memory)
    canonical.add_argument("--expression", action="store_true", help="read it as an expression: transforms go to the leaves")
    add(actions, "bytes", _bytes, "Canonical bytes of an expression.", ("text", TEXT))
    add(
        actions,
        "address",
        _address,
        "Belt address of a byte of a page.",
        ("page", {"metavar": "PAGE", "help": "0 to 47"}),
        ("byte", {"metavar": "BYTE", "help": "0 to 255"}),
    )
    run = add(actions, "run", _run, "Run a circuit on class memory, 96 classes of 3,072 float32.", ("text", CIRCUIT))
    run.add_argument("--in", dest="input", metavar="FILE.npy", help="class memory before (default: zeros)")
    run.add_argument("--out", dest="output", metavar="FILE.npy", help="where to save class memory afterwards")
    run.add_argument("--backend", default="cpu", choices=_core.Runtime.backends(), help="what runs it (default: cpu)")
    add(actions, "explain", _explain, "Every meaning of an expression or circuit, for people.", ("text", TEXT))
