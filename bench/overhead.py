#!/usr/bin/env python3
# bench/overhead.py: what a call through torch.compile costs beyond an empty backend
"""Graphs whose kernels take next to no time, called under an empty backend (outputs made once, so
all that is left is PyTorch's: guards, wrappers, AOT's runtime), under Hologram, frozen by
hologram_torch.freeze(), and eagerly.

    python bench/overhead.py [--graphs add,chain,mlp,encoder] [--rounds 15]
    python bench/overhead.py --before ../built-before --peers hologram,before,frozen,frozen_before
"""

import argparse
import contextlib
import statistics
import sys
from pathlib import Path

import peers
import report
from session import Failed, Session, home

PEERS = ("empty", "hologram", "frozen", "eager")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", default="add,chain,mlp,encoder")
    parser.add_argument(
        "--peers", default=",".join(PEERS), help="besides 'empty', which is always measured"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.1, help="time per round and peer")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="a built checkout: the peers before, frozen_before")
    options = parser.parse_args()
    before = options.before = options.before and options.before.resolve()
    if before is None and set(peers.BEFORE) & set(options.peers.split(",")):
        parser.error("the peers 'before' and 'frozen_before' need --before FOLDER")
    names = ["empty", *(n for n in options.peers.split(",") if n != "empty")]
    print(
        f"{'graph':10}"
        + "".join(f"{name:>12}" for name in names)
        + "".join(f"{n + ' - empty':>20}" for n in names[1:])
    )
    for graph in options.graphs.split(","):
        with contextlib.ExitStack() as stack:
            sessions, rounds = {}, {name: [] for name in names}
            for name in names:
                try:
                    folder = stack.enter_context(home())
                    sessions[name] = Session(f"tiny-{graph}", name, options.threads, folder, options.before)
                    stack.callback(sessions[name].close)
                except Failed as error:
                    print(f"n/a: {graph}, {name}: {error}", file=sys.stderr)
            for _ in range(options.rounds):
                for name, session in sessions.items():
                    rounds[name].append(session.ask(options.seconds)["min"])
            row = [report.seconds(statistics.median(r)) if r else "n/a" for r in rounds.values()]
            line = f"{graph:10}" + "".join(f"{cell:>12}" for cell in row)
            for name in names[1:]:
                beyond = [a - b for a, b in zip(rounds[name], rounds["empty"])]
                cell = f"{statistics.median(beyond) * 1e6:+.2f} µs" if beyond else "n/a"
                line += f"{cell:>20}"
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
