#!/usr/bin/env python3
# bench/scaling.py: how cases scale with threads, beside other runtimes
"""Measures each case with 1, 2, 4, … threads up to all that this process may use, under each peer that is installed.

    python bench/scaling.py
    python bench/scaling.py --cases 'minilm-8x128,gpt-prefill-1x128' --threads 1,2,16 --peers eager,hologram --out results

As in bench/run.py each peer has a process of its own, whose values are checked first, and peers take turns, so that ratios
are of one round. The table says milliseconds, and how many times as fast as the peer's own run with the fewest threads.
Pin the process (taskset) where threads should share one socket or cluster.
"""

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path

import cases
import peers
import report
import run

CASES = "minilm-8x128,gpt-prefill-1x128,resnet18-8,mlp-64,chain-10M,softmax-1024x1024,matmul-1024"
PEERS = {"eager": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino", "hologram": "hologram_torch"}


def thread_counts(most: int) -> list[int]:
    """Powers of two, and all."""
    counts = [1 << i for i in range(most.bit_length()) if 1 << i <= most]
    return counts if counts[-1] == most else [*counts, most]


def installed(names) -> list[str]:
    return [name for name in names if importlib.util.find_spec(PEERS.get(name, "torch"))]


def gain(results: dict, threads: int, peer: str) -> float | None:
    """How many times as fast as with the fewest threads. `results`: threads → peer → what run_case() found."""
    least, now = (report.steady(results[t].get(peer, {})) for t in (min(results), threads))
    return least / now if least and now else None


def table(measured: dict, names: list[str]) -> str:
    """Markdown: a row for each case and number of threads. `measured`: case → results."""
    lines = ["| case | threads | " + " | ".join(names) + " | ratio to the best other |", "| --- " * (len(names) + 3) + "|"]
    for case, results in measured.items():
        for threads, found in results.items():
            cells = []
            for name in names:
                time, times = report.steady(found.get(name, {})), gain(results, threads, name)
                cells.append("n/a" if time is None else f"{report.seconds(time)} ({times:.2f})" if times else report.seconds(time))
            best = report.best_peer(found)
            ratio = report.ratio(found[best], found["hologram"]) if best and "hologram" in found else None
            cells.append("" if ratio is None else f"{ratio:.2f} ({best})")
            lines.append(f"| {case} | {threads} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(measured: dict, names: list[str], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(measured), figsize=(3.2 * len(measured), 3.2), squeeze=False)
    for axis, (case, results) in zip(axes[0], measured.items()):
        for name in names:
            points = [(t, gain(results, t, name)) for t in results]
            points = [p for p in points if p[1]]
            if points:
                axis.plot(*zip(*points), marker="o", label=name, color=report.COLORS.get(name))
        axis.plot(list(results), [t / min(results) for t in results], color="#dddddd", zorder=0)
        axis.set(title=case, xlabel="threads", xscale="log", yscale="log")
        axis.set_xticks(list(results), [str(t) for t in results])
        axis.minorticks_off()
    axes[0][0].set_ylabel("times as fast as with the fewest threads")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=CASES, help="comma-separated names or patterns, as in bench/run.py")
    parser.add_argument("--peers", default=",".join(PEERS), help="those that are missing are left out")
    parser.add_argument("--threads", default="", help="comma-separated; by default 1, 2, 4, … and all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="per round and peer")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for scaling.json, .md and .svg")
    options = parser.parse_args()
    try:
        options.chosen = cases.select(options.cases.split(","))
        options.counts = [int(t) for t in options.threads.split(",")] if options.threads else []
    except ValueError as error:
        parser.error(str(error))
    unknown = [name for name in options.peers.split(",") if name not in peers.PEERS]
    if unknown:
        parser.error(f"no peer is called {unknown[0]!r}; known: {', '.join(peers.PEERS)}")
    if any(t < 1 for t in options.counts):
        parser.error("threads are 1 or more")
    options.counts = sorted(options.counts) or thread_counts(len(os.sched_getaffinity(0)))
    options.first, options.repeat_below = 1, 0.0
    return options


def main() -> int:
    options = arguments()
    names = installed(options.peers.split(","))
    measured = {}
    options.out.mkdir(parents=True, exist_ok=True)
    for case in options.chosen:
        measured[case.name] = {}
        for options.threads in options.counts:
            found = measured[case.name][options.threads] = run.run_case(case, names, options)
            for name, result in found.items():
                if "failed" in result:
                    print(f"{case.name}, {options.threads} threads, {name}: {result['failed']}", file=sys.stderr)
        (options.out / "scaling.json").write_text(json.dumps({"machine": run.machine(), "cases": measured}, indent=1))
        print(f"{case.name} done", file=sys.stderr, flush=True)
    text = table(measured, names)
    (options.out / "scaling.md").write_text(text + "\n")
    print(text)
    if importlib.util.find_spec("matplotlib"):
        plot(measured, names, options.out / "scaling.svg")
    else:
        print("no plot: matplotlib is missing", file=sys.stderr)
    print(f"written: {options.out}/scaling.*")
    return 0 if all("rounds" in r for results in measured.values() for f in results.values() for r in f.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
