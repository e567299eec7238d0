#!/usr/bin/env python3
# bench/bars.py: what is asked of a machine with AMX, in one command and one table
"""Runs bench/tiles.py, the models beside all other runtimes, and threads from two to all, and holds them against the bars.

    python bench/bars.py                       # two to three hours; taskset to 16 CPUs of one socket
    python bench/bars.py --quick --parts products   # then models, then threads: at most --minutes (9) each
    python bench/bars.py --from results.json   # the table of an earlier run
    python bench/bars.py --dry                 # a minute: whether all of it runs, the smallest cases

Writes build/bench/bars.json (everything) and bars.md (the table). Ratios are the time of the best other runtime over ours,
as the kernels run unasked ("default") and with everything on tiles ("tiles"); "amx/avx512" is ours against ours without tiles.
A machine without AMX measures what it can: the rest is n/a. Parts that are not asked for stay as the folder's bars.json has
them, so that a machine that is lent for minutes at a time can be asked part by part; what there was no time for is listed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import cases
import report
import run
import scaling

PARTS = ["products", "models", "threads"]
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
    Bar("bfloat16 gradients of attention", r"bfloat16 gradients of attention", 1.0),
    Bar("float32 attention", r"float32 attention", 1.0),
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
    late = [*results.get("tiles", {}).get("left_out", []), *results.get("left_out", [])]
    return "\n".join([*out, *(["\nNo time was left for: " + ", ".join(late) + "."] if late else [])])


def turns(options, minutes: float) -> dict:
    """What bench/tiles.py found, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiles.json"
        asked = {"threads": options.threads, "seconds": options.product_seconds, "only": options.only, "most": options.most}
        words = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, str(Path(__file__).with_name("tiles.py")), *words, "--minutes", str(minutes)]
        subprocess.run([*command, "--out", str(path)], check=False)
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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="of products and models")
    parser.add_argument("--seconds", type=float, help="for each case of a product and variant (2; 0.3 with --quick)")
    parser.add_argument("--rounds", type=int, help="of a model (5; 3 with --quick)")
    parser.add_argument("--only", default="", help="a regular expression that products' names begin with")
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated, empty for none")
    parser.add_argument("--scaled", default=",".join(SCALED), help="likewise")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of these to run")
    parser.add_argument("--minutes", type=float, help="for each part, after which no case is begun (600; 9 with --quick)")
    parser.add_argument("--quick", action="store_true", help="short turns, products up to 2048, no Inductor, 2 threads and all")
    parser.add_argument("--dry", action="store_true", help="the smallest cases, to see whether all of it runs")
    parser.add_argument("--from", dest="earlier", type=Path, help="a JSON file of an earlier run")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    if options.dry:
        options.quick, options.threads, options.models, options.scaled = True, 1, "mlp-64", "mlp-64"
        options.only, options.seconds, options.rounds = r"(float32|bfloat16 given) 64 x 64 x 64", 0.01, 1
    options.product_seconds = options.seconds or (0.3 if options.quick else 2.0)
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.minutes = options.minutes or (9 if options.quick else 600)
    options.most = 2048 if options.quick else 4096
    options.first, options.repeat_below, options.seconds, options.before = 1, 0.0, 0.01 if options.dry else 0.2, None
    options.parts = options.parts.split(",")
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part is called {min(unknown)!r}; known: {', '.join(PARTS)}")
    return options


class Run:
    """The parts, each within its time; what was found is kept after each case."""

    def __init__(self, options):
        self.options, self.path = options, options.out / "bars.json"
        peers = ["eager", "hologram"] if options.dry else [p for p in PEERS if p != "inductor" or not options.quick]
        self.names = scaling.installed(peers)
        self.variants = ["default", "tiles"] if options.dry else list(VARIANTS)
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.results = {"machine": run.machine(), "tiles": {}, "models": {}, "threads": {}, "left_out": []}
        for part, key in zip(PARTS, ("tiles", "models", "threads")):
            if part not in options.parts:
                self.results[key] = kept.get(key, {})
        self.end = 0.0

    def keep(self):
        self.path.write_text(json.dumps(self.results, indent=1))

    def late(self, what: str) -> bool:
        if time.monotonic() < self.end:
            return False
        self.results["left_out"].append(what)
        return True

    def products(self):
        self.results["tiles"] = turns(self.options, self.options.minutes)

    def models(self):
        for name in filter(None, self.options.models.split(",")):
            if self.late(name):
                continue
            found = self.results["models"][name] = {}
            for label in self.variants:
                peers = self.names if label == "default" else ["eager", "hologram"]
                found[label] = beside_others(name, peers, self.options, label)
            best = report.best_peer(found["default"])
            if best not in (None, "eager"):  # the others run once: their processes know nothing of our variants
                found["tiles"][best] = found["default"][best]
            self.keep()

    def threads(self):
        counts = [t for t in scaling.thread_counts(len(os.sched_getaffinity(0))) if t >= 2]
        if self.options.quick and len(counts) > 2:
            counts = [counts[0], counts[-1]]
        for name in filter(None, self.options.scaled.split(",")):
            found = self.results["threads"][name] = {}
            for self.options.threads in counts:
                if not self.late(f"{name} with {self.options.threads} threads"):
                    found[self.options.threads] = beside_others(name, ["eager", "hologram"], self.options, "default")
                    self.keep()

    def run(self):
        for part in self.options.parts:
            self.end = time.monotonic() + 60 * self.options.minutes
            getattr(self, part)()
            self.keep()


def main() -> int:
    options = arguments()
    if options.earlier:
        print(table(json.loads(options.earlier.read_text())))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    measured = Run(options)
    measured.run()
    text = table(measured.results)
    (options.out / "bars.md").write_text(text + "\n")
    print(text)
    print(f"written: {options.out}/bars.json, bars.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
