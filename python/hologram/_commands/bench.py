"""``hologram bench``: a quick look at how near single operations come to the machine's copy bandwidth."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hologram import _core
from hologram._commands.common import Failure, add, show

# One parallel axis, so that a program's symbol is the number of elements.
_HEAD = """atlas block 1
symbols 1
{buffers}loop parallel 1 lane i0
axis i0 parallel [s0]
stage point
"""
_BODIES = {
    "add": (2, "  %0 = load.f32 b0[i0]\n  %1 = load.f32 b1[i0]\n  %2 = add.f32 %0, %1\n  store.f32 b2[i0], %2\n"),
    "mul": (2, "  %0 = load.f32 b0[i0]\n  %1 = load.f32 b1[i0]\n  %2 = mul.f32 %0, %1\n  store.f32 b2[i0], %2\n"),
    "exp": (1, "  %0 = load.f32 b0[i0]\n  %1 = exp.f32 %0\n  store.f32 b1[i0], %1\n"),
    "tanh": (1, "  %0 = load.f32 b0[i0]\n  %1 = tanh.f32 %0\n  store.f32 b1[i0], %1\n"),
}


def _program(name: str) -> bytes:
    inputs, body = _BODIES[name]
    lines = [f"buffer b{k} f32 {'read' if k < inputs else 'write'} [s0]\n" for k in range(inputs + 1)]
    return (_HEAD.format(buffers="".join(lines)) + body).encode()


def _seconds(call: Callable[[], object], rounds: int) -> float:
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _measure(name: str, elements: int, rounds: int, runtime: Any) -> dict[str, float]:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(elements).astype(np.float32) for _ in range(_BODIES[name][0])]
    out, expected = np.empty(elements, np.float32), np.empty(elements, np.float32)
    program = _core.atlas.assemble(_program(name))
    raw = [a.view(np.uint8) for a in (*inputs, out)]
    reference: Any = np.multiply if name == "mul" else getattr(np, name)

    def ours() -> None:
        _core.atlas.run_block(program, raw, [elements], runtime)

    ours()
    reference(*inputs, out=expected)
    if not np.allclose(out, expected, rtol=1e-6, atol=0):
        raise Failure(f"bench: {name} is wrong on this machine")
    moved = 4 * elements * (len(inputs) + 1)
    seconds = _seconds(ours, rounds)
    numpy_seconds = _seconds(lambda: reference(*inputs, out=expected), rounds)
    return {"gb_per_s": moved / seconds / 1e9, "times_numpy": numpy_seconds / seconds}


def _bench(args: argparse.Namespace) -> int:
    if args.elements < 1 or args.rounds < 1:
        raise Failure("bench: --elements and --rounds must be at least 1")
    source, target = np.ones(args.elements, np.float32), np.empty(args.elements, np.float32)
    seconds = _seconds(lambda: np.copyto(target, source), args.rounds)
    copy = 8 * args.elements / seconds / 1e9
    runtime = _core.Runtime("cpu")
    rows = {}
    for name in _BODIES:
        row = _measure(name, args.elements, args.rounds, runtime)
        rows[name] = {**row, "of_copy": row["gb_per_s"] / copy}
    if args.json:
        show({"threads": 1, "elements": args.elements, "copy_gb_per_s": copy, "operations": rows}, True)
        return 0
    print(f"{args.elements} float32, one thread; a copy moves {copy:.1f} GB/s")
    for name, row in rows.items():
        print(f"  {name:<5} {row['gb_per_s']:6.1f} GB/s, {row['of_copy']:.0%} of the copy, {row['times_numpy']:.2f} times NumPy's speed")
    return 0


def register(commands: Any) -> None:
    """Adds the command to the command line."""
    text = "Time single operations on one thread against a copy and NumPy."
    command = add(commands, "bench", _bench, text)
    command.add_argument("--elements", type=int, default=1 << 22, metavar="N", help="float32 per array (default: 4,194,304)")
    command.add_argument("--rounds", type=int, default=11, metavar="N", help="of which the median counts (default: 11)")
