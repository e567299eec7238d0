#!/usr/bin/env python3
# bench/numpy_programs.py: hologram.jit beside NumPy on the programs of examples/numpy_programs
"""Each program in both, in turns: the shortest call of each, and NumPy's time over ours. Values are compared first. Where ours is
longer it is measured again, both ways, since other work may have been in the way of the few calls that long programs get.

    python bench/numpy_programs.py [--sizes 10000,300000] [--seconds 0.05] [--only NAME,…] [--markdown FILE]
"""

import argparse
import math
import sys
import time
from pathlib import Path

import hologram
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from numpy_programs import PROGRAMS  # noqa: E402


_ROUNDS = 5  # that a program is measured again


def leaves(value):
    return [x for part in value for x in leaves(part)] if isinstance(value, (tuple, list)) else [np.asarray(value)]


def agree(want, got) -> bool:
    pairs = list(zip(leaves(want), leaves(got)))
    return all(w.shape == g.shape and np.allclose(g, w, 1e-3, _slack(w), equal_nan=True) for w, g in pairs)


def _slack(want) -> float:
    """Sums that cancel keep the error of what they were made of; bytes are rounded."""
    return 1 if want.dtype == np.uint8 else 1e-4 * max(1.0, float(np.nanmax(np.abs(want), initial=0)) if want.dtype.kind in "fc" else 1.0)


def shortest(calls, seconds):
    """Seconds of the shortest call of each, taken in turns."""
    best, end = [math.inf] * len(calls), time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or math.inf in best:
        for i, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - begin)
    return best


def measure(name, n, seconds):
    """(NumPy's seconds, ours), or why there are none."""
    function, maker = PROGRAMS[name]
    jitted = hologram.jit(function)
    try:
        if not agree(function(*maker(np.random.default_rng(0), n)), jitted(*maker(np.random.default_rng(0), n))):
            return "other values"
    except (TypeError, ValueError, IndexError) as error:
        return str(error).split("\n")[0][:60]
    mine, theirs = maker(np.random.default_rng(1), n), maker(np.random.default_rng(1), n)
    calls = [lambda: function(*mine), lambda: jitted(*theirs)]
    found = shortest(calls, seconds)
    for _ in range(_ROUNDS):
        if found[1] <= found[0]:
            break
        found = [min(pair) for pair in zip(found, shortest(calls, seconds))]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,300000")
    parser.add_argument("--seconds", type=float, default=0.05, help="time of each program and peer")
    parser.add_argument("--only", default="", help="names, with commas between")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    np.seterr(all="ignore")
    names = options.only.split(",") if options.only else list(PROGRAMS)
    lines = ["| elements | program | NumPy ms | ours ms | ratio |", "| --- | --- | --- | --- | --- |"]
    for n in map(int, options.sizes.split(",")):
        ratios, left = {}, {}
        for name in names:
            found = measure(name, n, options.seconds)
            if isinstance(found, str):
                left[name] = found
                continue
            theirs, ours = found
            ratios[name] = theirs / ours
            lines.append(f"| {n:,} | {name} | {theirs * 1e3:.4f} | {ours * 1e3:.4f} | {theirs / ours:.2f} |")
        mean = math.exp(sum(map(math.log, ratios.values())) / max(1, len(ratios)))
        below = {name: round(r, 2) for name, r in sorted(ratios.items(), key=lambda item: item[1]) if r < 1}
        print(f"{n:,} elements: {len(ratios)} programs, geometric mean {mean:.2f}, below 1: {len(below)} {below}")
        for name, why in left.items():
            print(f"  not measured: {name}: {why}")
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
