#!/usr/bin/env python3
# bench/contention.py: how long a short call takes while other processes keep the cores busy
"""For each peer a chain of element-wise operations is sized so that a quiet call takes 0.75 ms;
then it is called beside 0, 1, 2 busy processes. The ideal share of c competitors on P cores is P /
(P - c / 2) times the quiet time: what the call takes if half of each competitor's core is its own.

    python bench/contention.py [--peers eager,inductor,hologram] [--seconds 4]
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time

import report
from session import Failed, Session, home

START = 250_000  # elements of the chain that the size is calculated from


@contextlib.contextmanager
def competitors(count: int):
    """That many processes that only burn time."""
    burn = "while True: pass"
    processes = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(count)]
    try:
        time.sleep(0.5 if count else 0)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def sized_session(peer: str, target: float, threads: int, stack: contextlib.ExitStack):
    """A session whose quiet call takes about `target` seconds, and its number of elements."""
    elements = START
    for _ in range(2):
        probe = Session(f"chain-{elements}", peer, threads, stack.enter_context(home()))
        elements = max(1, round(elements * target / probe.ask(1.0)["min"] / 1000)) * 1000
        probe.close()
    session = Session(f"chain-{elements}", peer, threads, stack.enter_context(home()))
    stack.callback(session.close)
    return session, elements


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", default="eager,inductor,hologram")
    parser.add_argument(
        "--competitors", default="0,1,2", help="numbers of busy processes; starts with 0"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="time per measurement")
    parser.add_argument("--target", type=float, default=0.75e-3, help="seconds of a quiet call")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    cores, counts = os.cpu_count(), [int(c) for c in options.competitors.split(",")]
    if counts[0] != 0 or max(counts) >= 2 * cores:
        parser.error(f"--competitors starts with 0 and stays below {2 * cores} on {cores} cores")
    titles = ("peer", "elements", "competitors", "mean", "median", "p99", "max", "mean/ideal")
    print("".join(f"{t:>12}" for t in titles))
    for peer in options.peers.split(","):
        with contextlib.ExitStack() as stack:
            try:
                session, elements = sized_session(peer, options.target, options.threads, stack)
                for count in counts:
                    with competitors(count):
                        found = session.ask(options.seconds, latencies=True)
                    if count == 0:
                        quiet = found["median"]
                    share = found["mean"] / (quiet * cores / (cores - count / 2))
                    times = [report.seconds(found[key]) for key in ("mean", "median", "p99", "max")]
                    row = (peer, elements, count, *times, f"{share:.2f}×")
                    print("".join(f"{cell:>12}" for cell in row), flush=True)
            except Failed as error:
                print(f"n/a: {peer}: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
