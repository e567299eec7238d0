#!/usr/bin/env python3
# bench/run.py: Hologram against other runtimes, each case and peer in a process of its own
"""Measures the first call and the steady state of each case under each peer.

    python bench/run.py                   # everything (about 40 minutes on 2 cores)
    python bench/run.py --quick
    python bench/run.py --cases 'chain-*,minilm-1x16' --peers eager,inductor,hologram --out results
    python bench/run.py --limits          # and how far each case is from what the machine can do
    python bench/run.py --before ../built-before --peers hologram --gate 2    # fails where we became slower

Every worker starts with empty caches, checks its values against float64, and then answers "time
yourself now" in rounds that go through all peers, so that a change of the machine's speed meets
them all; ratios are taken within a round. The other workers are stopped meanwhile.
"""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import sys
import time
from pathlib import Path

import cases
import limits as bounds
import peers
import report
from session import Failed, Session, home

PACKAGES = ("torch", "openvino", "onnxruntime", "hologram-compute")


def machine() -> dict:
    name = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(
            (line.split(":")[1].strip() for line in lines if line.startswith("model name")), name
        )
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "cpu": name,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
    }


def first_calls(case, peer, options, folder: str) -> tuple[Session, dict]:
    """Starts a cold process that stays, and for peers with a disk cache a warm one that does
    not."""
    session = Session(case.name, peer.name, options.threads, folder, options.before)
    result = {key: session.first[key] for key in ("error", "load", "stats") if key in session.first}
    result["first"] = [session.first["first"]]
    if peer.warm:
        try:
            warm = Session(case.name, peer.name, options.threads, folder, options.before)
        except Failed:
            session.close()
            raise
        result["warm"], result["warm_stats"] = [warm.first["first"]], warm.first.get("stats")
        warm.close()
    return session, result


def run_case(case, names: list[str], options) -> dict:
    """→ peer → {first, warm, error, rounds} or {failed: reason}"""
    results, sessions = {}, {}
    with contextlib.ExitStack() as stack:
        for repeat in range(options.first):
            for name in names:
                peer = peers.PEERS[name]
                again = results.get(name)
                if repeat and (
                    again is None or "failed" in again or again["first"][0] > options.repeat_below
                ):
                    continue
                try:
                    session, result = first_calls(case, peer, options, stack.enter_context(home()))
                except Failed as error:
                    results[name] = {"failed": str(error)}
                    if name in sessions:
                        sessions.pop(name).close()
                    continue
                if again is None:
                    results[name], sessions[name] = result, session
                    stack.callback(session.close)
                else:
                    session.close()
                    again["first"] += result["first"]
                    again.setdefault("warm", []).extend(result.get("warm", []))
        steady = [name for name in sessions if peers.PEERS[name].steady]
        for name in steady:
            results[name]["rounds"] = []
        for index in range(options.rounds):
            turn = index % max(1, len(steady))
            for name in steady[turn:] + steady[:turn]:
                try:
                    if "failed" not in results[name]:
                        results[name]["rounds"].append(sessions[name].ask(options.seconds))
                except Failed as error:
                    results[name] = {"failed": str(error)}
        if getattr(options, "limits", False) and "rounds" in results.get("hologram", {}):
            with contextlib.suppress(Failed):
                results["hologram"]["work"] = sessions["hologram"].ask(0.0, work=True)
    return results


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cases", default="", help="comma-separated names or patterns; chain-300000 works too"
    )
    parser.add_argument(
        "--peers", default=",".join(peers.DEFAULT), help=f"of {', '.join(peers.PEERS)}"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="timed rounds (7; 3 with --quick)")
    parser.add_argument(
        "--seconds", type=float, help="time per round and peer (0.3; 0.1 with --quick)"
    )
    parser.add_argument(
        "--first", type=int, default=1, help="processes per peer for the first call's median"
    )
    parser.add_argument("--repeat-below", type=float, default=5.0, metavar="SECONDS",
                        help="first calls longer than this are not repeated")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a few cases, short rounds")
    parser.add_argument(
        "--out", type=Path, default=Path("build/bench"), help="folder for JSON and plots"
    )
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="a built checkout of Hologram, the peer 'before'")
    parser.add_argument("--gate", type=float, metavar="PERCENT", help="with --before: status 1 where a case takes that much longer")
    parser.add_argument("--limits", action="store_true", help="measure this machine's peaks, and each case's share of its limit")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 7)
    options.seconds = options.seconds or (0.1 if options.quick else 0.3)
    if options.before:
        options.before = options.before.resolve()
        if not any((options.before / "python" / "hologram").glob("_core*.so")):
            parser.error(f"--before {options.before}: no checkout with a built python/hologram")
        options.peers += "" if "before" in options.peers.split(",") else ",before"
    elif options.gate is not None or set(peers.BEFORE) & set(options.peers.split(",")):
        parser.error("--gate and the peers 'before' and 'frozen_before' need --before FOLDER")
    unknown = [name for name in options.peers.split(",") if name not in peers.PEERS]
    if unknown:
        parser.error(f"no peer is called {unknown[0]!r}; known: {', '.join(peers.PEERS)}")
    try:
        options.chosen = cases.select(options.cases.split(",") if options.cases else ["*"])
    except ValueError as error:
        parser.error(str(error))
    if options.quick and not options.cases:
        options.chosen = [case for case in options.chosen if case.quick]
    return options


def main() -> int:
    options = arguments()
    if options.list:
        print("\n".join(case.name for case in options.chosen))
        return 0
    names = options.peers.split(",")
    results = {"machine": machine(), "threads": options.threads, "peers": names, "cases": {}}
    if options.limits:
        from hologram import limits

        measured = limits.measured(options.threads, again=True)
        results["limits"] = dataclasses.asdict(measured)
    options.out.mkdir(parents=True, exist_ok=True)
    for index, case in enumerate(options.chosen):
        start, load = time.monotonic(), os.getloadavg()[0]
        found = run_case(case, names, options)
        results["cases"][case.name] = {"barred": case.barred, "load": load, "peers": found}
        if options.limits and "work" in found.get("hologram", {}):
            least = bounds.least_seconds(found["hologram"]["work"], measured)
            results["cases"][case.name]["limit"] = dict(zip(("seconds", "bound"), least))
        (options.out / "results.json").write_text(json.dumps(results, indent=1))
        steady = "  ".join(
            f"{n} {report.seconds(report.steady(r))}" for n, r in found.items() if r.get("rounds")
        )
        took = time.monotonic() - start
        print(
            f"[{index + 1}/{len(options.chosen)}] {case.name}: {steady}  ({took:.0f} s)",
            file=sys.stderr,
        )
    report.print_all(results)
    table = report.markdown(results, {case.name: case.title for case in options.chosen})
    (options.out / "table.md").write_text(table)
    (options.out / "results.csv").write_text(report.csv_text(results))
    print(table)
    if options.limits:
        print(f"limits on {measured.threads} threads: " + "; ".join(f"{what} {rates}" for what, rates in measured.rows()))
    report.plot(results, options.out)
    print(f"written: {options.out}/results.json, results.csv, table.md, steady.svg, first_call.svg (and .png)")
    slower = report.slower(results, options.gate / 100) if options.gate is not None else []
    for case, name, times in slower:
        print(f"slower than before: {case}, {name}: {times:.3f} times as long")
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
