#!/usr/bin/env python3
# bench/dashboard.py: the models of PyTorch's performance dashboard, in its form: what passes, how fast, compile time, memory
"""Each model of the dashboard's lists of Hugging Face and timm, with random weights and offline, under each compiler in a process of its
own: right beside eager, seconds of the first call, time and peak memory of later ones beside eager's. Times are the fastest of turns
that both take, as work of other processes meets eager's threads, which wait for one another, harder ("median": of the turns).

    python bench/dashboard.py --size small                # every model narrow: minutes
    python bench/dashboard.py --suites timm --batch 8     # full size, smaller batches
    python bench/dashboard.py --only Bert,T5 --compilers hologram,inductor --training

Results go to --out after each model; what is there already is not run again (--again: it is). The table has the dashboard's four
lines for each suite: passed, geometric mean of the speed-ups of those that passed (a slower one counts as measured), mean seconds of the
first call, and eager's peak memory over the compiler's (above 1: less). A model whose process ends or exceeds --limit has not passed.
"""

import argparse
import json
import math
import os
import sys
import time
import warnings
from pathlib import Path

from dashboard_models import SUITES

sys.path.append(str(Path(__file__).resolve().parent / "shared"))
import limited  # noqa: E402

TOLERANCE = 1e-3  # of the largest element, as the dashboard's


def peak(call) -> int:
    """The largest resident set while it runs, in bytes."""
    from memory import field

    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    call()
    return field("VmHWM")


def gradients(call, model) -> list:
    """Of a fixed random combination of the results, by parameter."""
    from architectures import step

    model.zero_grad()
    step(lambda _: call(), model)
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def measure(suite: str, name: str, compiler: str, options) -> dict:
    """What one model does, in this process."""
    import torch
    from architectures import difference, tensors
    from dashboard_models import build
    from memory import field
    from turns import take_turns

    torch.set_num_threads(options.threads)
    before = field("VmRSS")
    model, arguments, named = build(suite, name, options.size, options.batch)
    compiled = torch.compile(model, backend=compiler)

    def call(target):
        if options.training:
            return gradients(lambda: target(*arguments, **named), model)
        with torch.no_grad():
            return tensors(target(*arguments, **named))

    theirs = call(model)
    eager_peak = peak(lambda: call(model)) - before
    start = time.perf_counter()
    ours = call(compiled)
    row = {"first": time.perf_counter() - start, "difference": difference(ours, theirs)}
    row["difference"] = max(row["difference"], difference(call(compiled), theirs))
    row["memory"] = eager_peak / max(peak(lambda: call(compiled)) - before, 1)
    del ours, theirs
    turns = take_turns({"compiled": lambda: call(compiled), "eager": lambda: call(model)}, options.seconds)
    row |= turns.fastest() | {"median": turns.median(["eager"], "compiled")}
    row["speedup"] = row["eager"] / row["compiled"]
    if compiler == "hologram":
        import hologram_torch

        stats = hologram_torch.stats()
        row |= {"fallback": sorted(stats["fallback_ops"]), "failed_graphs": stats["failed_graphs"]}
    row["passed"] = row["difference"] <= TOLERANCE and not row.get("failed_graphs")
    return row


def alone(key: str, options) -> dict:
    """The row of one model under one compiler, from a process of its own."""
    same = {k: getattr(options, k) for k in ("size", "batch", "threads", "seconds")}
    command = [sys.executable, __file__, "--one", key, *(word for k, v in same.items() for word in (f"--{k}", str(v)))]
    command += ["--training"] * options.training
    try:
        run = limited.run(command, options.limit, {**os.environ, "HF_HUB_OFFLINE": "1"})
    except limited.TookTooLong as error:
        return {"passed": False, "failed": str(error)}
    if run.returncode == 0:
        return json.loads(run.stdout.splitlines()[-1])
    last = (run.stderr.strip().splitlines() or [""])[-1][:200]
    return {"passed": False, "failed": f"exit status {run.returncode}: {last}"}


def line(key: str, row: dict) -> str:
    if "failed" in row:
        return f"{key:64} failed: {row['failed']}"
    fallen = f"  calls {', '.join(row['fallback'])}" if row.get("fallback") else ""
    return (f"{key:64} {'pass' if row['passed'] else 'WRONG'}  {row['speedup']:5.2f}×  first {row['first']:6.1f} s  "
            f"memory {row['memory']:.2f}  difference {row['difference']:.0e}{fallen}")  # fmt: skip


def mean(values, log=False) -> str:
    values = list(values)
    if not values:
        return "n/a"
    return f"{math.exp(sum(map(math.log, values)) / len(values)) if log else sum(values) / len(values):.2f}"


def table(rows: dict, compilers: list, suites: list) -> str:
    """The dashboard's lines; keys are suite/model/compiler."""
    out = ["| | compiler | " + " | ".join(suites) + " |", "| --- " * (2 + len(suites)) + "|"]
    kinds = {
        "passed": lambda found, right: f"{len(right)} of {len(found)}" if found else "n/a",
        "geometric mean of speed-ups": lambda found, right: mean((r["speedup"] for r in right), log=True) + ("×" if right else ""),
        "mean seconds of the first call": lambda found, right: mean(r["first"] for r in right),
        "eager's peak memory over the compiler's": lambda found, right: mean((r["memory"] for r in right), log=True),
    }
    for kind, of in kinds.items():
        for compiler in compilers:
            cells = []
            for suite in suites:
                found = [r for key, r in rows.items() if key.startswith(f"{suite}/") and key.endswith(f"/{compiler}")]
                cells.append(of(found, [r for r in found if r["passed"]]))
            out.append(f"| {kind} | {compiler} | {' | '.join(cells)} |")
    return "\n".join(out)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", default=",".join(SUITES), help="with a comma between them")
    parser.add_argument("--compilers", default="hologram", help="backends of torch.compile, likewise: hologram,inductor")
    parser.add_argument("--only", default="", help="words of the models' names, likewise")
    parser.add_argument("--size", choices=("full", "small"), default="full")
    parser.add_argument("--batch", type=int, default=0, help="of every model (default: the dashboard's; 2, of images 1, if small)")
    parser.add_argument("--training", action="store_true", help="the gradients of all parameters in place of the results")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing for each side")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds of processor time for each model and compiler")
    parser.add_argument("--out", type=Path, default=Path("build/bench/dashboard.json"))
    parser.add_argument("--again", action="store_true", help="forget what --out holds")
    parser.add_argument("--list", action="store_true", help="print the models and stop")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.suites, options.compilers = options.suites.split(","), options.compilers.split(",")
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"no suite is called {min(unknown)!r}; known: {', '.join(SUITES)}")
    return options


def main() -> int:
    options = arguments()
    warnings.filterwarnings("ignore")
    if options.one:
        suite, name, compiler = options.one.split("/")
        print(json.dumps(measure(suite, name, compiler, options)))
        return 0
    names = [(suite, name) for suite in options.suites for name in SUITES[suite] if any(w in name for w in options.only.split(","))]
    if options.list:
        print("\n".join(f"{suite}/{name}: batch {SUITES[suite][name]}" for suite, name in names))
        return 0
    how = {k: getattr(options, k) for k in ("size", "batch", "training", "threads")}
    kept = json.loads(options.out.read_text()) if options.out.exists() and not options.again else {}
    rows = kept["rows"] if kept.get("how") == how else {}
    keys = [f"{suite}/{name}/{compiler}" for suite, name in names for compiler in options.compilers]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for number, key in enumerate(keys, 1):
        if key not in rows:
            rows[key] = alone(key, options)
            part = options.out.with_suffix(".part")
            part.write_text(json.dumps({"how": how, "rows": rows}, indent=1))
            part.replace(options.out)
        print(f"[{number}/{len(keys)}] {line(key, rows[key])}", flush=True)
    asked = {key: rows[key] for key in keys}
    print(f"\n{table(asked, options.compilers, options.suites)}\n\nwritten: {options.out}")
    return 0 if all(row["passed"] for row in asked.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
