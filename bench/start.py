#!/usr/bin/env python3
# bench/start.py: what a process waits for until a saved model's first result
"""    python bench/start.py [CASE...] [--ways traced,cache,saved,unguarded] [--rounds 3]

A first process compiles the model and saves it; then fresh processes start from that: `traced` compiles it again with its
kernels in the cache, `cache` takes AOTAutograd's graph from PyTorch's cache (`options={"cache": True}`), `saved` loads the file
of `save_compiled_function` with the guards that such a file can keep, `unguarded` one without guards. The first result is compared
with that of the process that saved it, bit by bit. Times begin when all modules are imported and the model has its weights:
seconds that passed, and seconds of processor time (of all threads), which other processes on the machine change little."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = ("minilm-1x16",)
WAYS = ("traced", "cache", "saved", "unguarded")
GUARDS = {"saved": "keep_portable_guards_unsafe", "unguarded": "skip_all_guards_unsafe"}


def built(case: str):
    import cases
    import torch

    torch.set_num_threads(2)
    module, inputs = cases.find(case).build()
    return module, tuple(inputs)


def compiled(way: str, module):
    import torch

    if way in GUARDS:
        options = {"guard_filter_fn": getattr(torch.compiler, GUARDS[way])}
        return torch.compile(module.forward, backend="hologram", fullgraph=True, options=options)
    return torch.compile(module, backend="hologram", dynamic=False, options={"cache": True} if way == "cache" else {})


def save(case: str, way: str, folder: Path) -> None:
    import torch

    module, inputs = built(case)
    with torch.no_grad():
        call = compiled(way, module)
        if way in GUARDS:
            call = call.aot_compile((inputs, {}))
            call.save_compiled_function(str(folder / "compiled"))
            torch.save(call(module, *inputs), folder / "expected")
        else:
            torch.save(call(*inputs), folder / "expected")


def start(case: str, way: str, folder: Path) -> dict:
    import hologram_torch
    import torch
    import torch._dynamo
    import torch._functorch.aot_autograd  # noqa: F401

    module, inputs = built(case)
    clocks = (time.perf_counter, time.process_time)
    before = [clock() for clock in clocks]
    with torch.no_grad():
        if way in GUARDS:
            with open(folder / "compiled", "rb") as file:
                function = torch.compiler.load_compiled_function(file)
            call = lambda *arguments: function(module, *arguments)
        else:
            call = compiled(way, module)
        loaded = [clock() for clock in clocks]
        result = call(*inputs)
        done = [clock() for clock in clocks]
    leaves = torch.utils._pytree.tree_leaves
    expected = torch.load(folder / "expected", weights_only=False)
    if not all(map(torch.equal, leaves(result), leaves(expected))):
        raise SystemExit(f"{case} {way}: other values than before saving")
    counters, stats = torch._dynamo.utils.counters, hologram_torch.stats()
    return {
        "load": loaded[0] - before[0], "first": done[0] - before[0],
        "load_cpu": loaded[1] - before[1], "first_cpu": done[1] - before[1],
        "frames": sum(counters["frames"].values()), "kernels": stats["kernel_cache_misses"],
    }  # fmt: skip


def run(action: str, case: str, way: str, folder: Path) -> str:
    """The last line of a process with caches of its own below `folder`."""
    environment = os.environ | {
        "HOLOGRAM_CACHE_DIR": str(folder / "kernels"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "PYTHONWARNINGS": "ignore",
        "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2",
    }  # fmt: skip
    command = [sys.executable, __file__, action, case, way, "--folder", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout.splitlines()[-1] if done.stdout else ""


def measure(case: str, way: str, rounds: int) -> list[dict]:
    with tempfile.TemporaryDirectory() as name:
        run("--save", case, way, Path(name))
        return [json.loads(run("--start", case, way, Path(name))) for _ in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--rounds", type=int, default=3)
    for action in ("--save", "--start"):
        parser.add_argument(action, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.save:
        return save(*options.save, options.folder)
    if options.start:
        return print(json.dumps(start(*options.start, options.folder)))
    print(f"medians of {options.rounds} processes, seconds (of them processor time); load average {os.getloadavg()[0]:.1f} at the start")
    print(f"{'':24} {'load':>15} {'first result':>15} {'traced':>7} {'compiled':>9}")
    for case in options.cases:
        for way in options.ways.split(","):
            runs = measure(case, way, options.rounds)
            m = {key: statistics.median(r[key] for r in runs) for key in runs[0]}
            print(
                f"{case + ' ' + way:24} {m['load']:6.2f} ({m['load_cpu']:5.2f}) {m['first']:7.2f} ({m['first_cpu']:5.2f}) "
                f"{m['frames']:7.0f} {m['kernels']:9.0f}",
                flush=True,
            )  # fmt: skip
    return None


if __name__ == "__main__":
    main()
