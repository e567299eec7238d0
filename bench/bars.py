#!/usr/bin/env python3
# bench/bars.py: what is asked of a machine with AMX, in one command and one table
"""Runs bench/tiles.py, the models beside all other runtimes, and threads from two to all, and holds them against the bars.

    python bench/bars.py                       # two to three hours; taskset to 16 CPUs of one socket
    python bench/bars.py --from results.json   # the table of an earlier run

Writes build/bench/bars.json (everything) and bars.md (the table). Ratios are the time of the best other runtime over ours,
as the kernels run unasked ("default") and with everything on tiles ("tiles"); "amx/avx512" is ours against ours without tiles.
A machine without AMX measures what it can: the rest is n/a.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import cases
import report
import run
import scaling

PEERS = ["eager", "inductor", "onnxruntime", "openvino", "hologram"]
MODELS = ["minilm-8x128", "gpt-prefill-1x128", "resnet18-8", "minilm-8x128-bf16"]
SCALED = ["minilm-8x128", "gpt-prefill-1x128", "resnet18-8", "mlp-64"]
LARGE = r"(512|1024|2048|4096) x "


@dataclass
class Bar:
    """The least ratio over the cases whose names match."""

    what: str
    pattern: str
    least: float


PRODUCTS = [
    Bar("float32 packed, 512 to 4096 and transformers'", rf"float32 {LARGE}", 1.5),
    Bar("float32 packed, up to 256 and few rows", r"float32 \d+ x", 1.0),
    Bar("float32 given, from 512", rf"float32 given {LARGE}", 1.2),
    Bar("float32 given, up to 256", r"float32 given (64|128|256) x", 1.0),
    Bar("bfloat16 packed", rf"bfloat16 {LARGE}", 1.15),
    Bar("bfloat16 given", rf"bfloat16 given {LARGE}", 1.05),
    Bar("bytes packed", r"bytes \d", 1.2),
    Bar("bytes given", r"bytes given", 1.0),
    Bar("medium", r"medium", 1.0),
    Bar("bfloat16 attention", r"bfloat16 attention .* x (128|1024) x (128|1024) x ", 1.2),
    Bar("bfloat16 attention, decode", r"bfloat16 attention .* x 1 x ", 1.2),
]
MODEL_BARS = {"minilm-8x128": 1.6, "gpt-prefill-1x128": 1.5, "resnet18-8": 1.3, "minilm-8x128-bf16": 1.3}
SCALING_BARS = {"minilm-8x128": 6.5, "gpt-prefill-1x128": 6.0, "resnet18-8": 6.0, "mlp-64": 4.0}
VARIANTS = {"default": {}, "tiles": {"HOLOGRAM_CPU_TERMS": "model", "HOLOGRAM_CPU_ATTENTION": "tiles"},
            "avx512": {"HOLOGRAM_CPU_ISA": "avx512"}}  # fmt: skip


def time_of(case: dict, label: str) -> float | None:
    """The median over turns of the label's time over that of the case's subject."""
    if label == case.get("subject"):
        return 1.0
    quartiles = case.get("ratios", {}).get(label)
    return quartiles[1] if quartiles else None


def least_ratio(found: dict, pattern: str, peer: str, subject: str) -> float | None:
    """The least of peer's time over subject's among the cases that were measured."""
    ratios = []
    for name, case in found.items():
        if re.match(pattern, name):
            theirs, ours = time_of(case, peer), time_of(case, subject)
            if theirs and ours:
                ratios.append(theirs / ours)
    return min(ratios, default=None)


def rows(results: dict) -> list[tuple]:
    """(what, bar, by default, with everything on tiles, amx over avx512)"""
    lines, found = [], results.get("tiles", {}).get("cases", {})
    for bar in PRODUCTS:
        ratios = [least_ratio(found, bar.pattern, "torch", subject) for subject in ("default", "tiles")]
        lines.append((bar.what, bar.least, *ratios, least_ratio(found, bar.pattern, "fma", "default")))
    for name, least in MODEL_BARS.items():
        by_variant = results.get("models", {}).get(name, {})
        ratios = []
        for label in ("default", "tiles"):
            peers = by_variant.get(label, {})
            best = report.best_peer(peers)
            ratios.append(report.ratio(peers[best], peers["hologram"]) if best and "hologram" in peers else None)
        ours = [by_variant.get(label, {}).get("hologram", {}) for label in ("avx512", "default")]
        lines.append((f"{name}, over the best peer", least, *ratios, report.fastest_ratio(*ours)))
    for name, least in SCALING_BARS.items():
        by_threads = {int(t): f for t, f in results.get("threads", {}).get(name, {}).items()}
        most = max(by_threads, default=0)
        gain = scaling.gain(by_threads, most, "hologram") if len(by_threads) > 1 else None
        lines.append((f"{name}, {min(by_threads, default=2)} to {most or 16} threads", least, gain, None, None))
        times = [report.steady(f.get("hologram", {})) for _, f in sorted(by_threads.items())]
        steps = [a / b for a, b in zip(times, times[1:]) if a and b]
        lines.append((f"{name}, no step to more threads slower", 1.0, min(steps, default=None), None, None))
    return lines


def table(results: dict) -> str:
    out = ["| what | bar | by default | all on tiles | amx/avx512 (0.98) | met |", "| --- " * 6 + "|"]
    for what, least, default, tiles, levels in rows(results):
        met = "n/a" if default is None else "yes" if default >= least and (levels or 1) >= 0.98 else "no"
        cells = ["n/a" if x is None else f"{x:.2f}" for x in (default, tiles, levels)]
        out.append(f"| {what} | {least:.2f} | {' | '.join(cells)} | {met} |")
    for name, parts in results.get("tiles", {}).get("shares", {}).items():
        out.append(("\n" if out[-1].startswith("|") else "") + f"{name}: " + ", ".join(f"{w} {p:.2f}" for w, p in parts.items()))
    return "\n".join(out)


def turns(threads: int, seconds: float, only: str) -> dict:
    """What bench/tiles.py found, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiles.json"
        command = [sys.executable, str(Path(__file__).with_name("tiles.py")), "--threads", str(threads)]
        subprocess.run([*command, "--seconds", str(seconds), "--only", only, "--out", str(path)], check=False)
        return json.loads(path.read_text()) if path.exists() else {}


def beside_others(name: str, names: list[str], options, label: str) -> dict:
    """run.run_case with what the variant asks for in the environment of every process."""
    saved = dict(os.environ)
    os.environ.update(VARIANTS[label])
    try:
        return run.run_case(cases.find(name), names, options)
    finally:
        os.environ.clear()
        os.environ.update(saved)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="of products and models")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each case of a product and variant")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="a word of the products' names")
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated, empty for none")
    parser.add_argument("--scaled", default=",".join(SCALED), help="likewise")
    parser.add_argument("--from", dest="earlier", type=Path, help="a JSON file of an earlier run")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    if options.earlier:
        print(table(json.loads(options.earlier.read_text())))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    options.first, options.repeat_below, block = 1, 0.0, options.seconds
    results = {"machine": run.machine(), "tiles": turns(options.threads, block, options.only), "models": {}, "threads": {}}
    names, options.seconds = scaling.installed(PEERS), 0.2

    def keep():
        (options.out / "bars.json").write_text(json.dumps(results, indent=1))

    keep()
    for name in filter(None, options.models.split(",")):
        results["models"][name] = {}
        for label in VARIANTS:
            peers = names if label == "default" else ["eager", "hologram"]
            results["models"][name][label] = beside_others(name, peers, options, label)
        best = report.best_peer(results["models"][name]["default"])
        if best not in (None, "eager"):  # the others run once: their processes know nothing of our variants
            results["models"][name]["tiles"][best] = results["models"][name]["default"][best]
        keep()
    counts = [t for t in scaling.thread_counts(len(os.sched_getaffinity(0))) if t >= 2]
    for name in filter(None, options.scaled.split(",")):
        results["threads"][name] = {}
        for options.threads in counts:
            results["threads"][name][options.threads] = beside_others(name, ["eager", "hologram"], options, "default")
            keep()
    text = table(results)
    (options.out / "bars.md").write_text(text + "\n")
    print(text)
    print(f"written: {options.out}/bars.json, bars.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
