#!/usr/bin/env python3
# bench/cuda.py: what is asked of an NVIDIA GPU, in one command and one table
"""Runs the cases of bench/cuda_cases.py on CUDA tensors, each in a process of its own, where the peers take turns.

    python bench/cuda.py                                   # on a machine with a GPU and PyTorch for it
    python bench/cuda.py --cases 'chain*,softmax*' --peers eager,inductor,hologram --rounds 9
    python bench/cuda.py --first                           # first calls of the models, cold and warm, beyond aot_eager
    python bench/cuda.py --dry                             # every case once, tiny, over the emulator of the tests: no times

Writes build/bench/cuda.json after each case, and cuda.md, the table. Times are per call of calls in a row. "hologram" leaves products and
attention to PyTorch, "hologram-own" takes our kernels, "hologram-graphs" these and CUDA graphs from the first call on. A case fails whose
result is wrong or differs between two calls.
"""

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OWN = {"native_products": True}
PEERS = {
    "eager": None,
    "aot_eager": {"backend": "aot_eager"},
    "inductor": {"backend": "inductor"},
    "inductor-graphs": {"backend": "inductor", "mode": "reduce-overhead"},
    "max-autotune": {"backend": "inductor", "mode": "max-autotune"},
    "hologram": {"backend": "hologram"},
    "hologram-own": {"backend": "hologram", "options": OWN},
    "hologram-graphs": {"backend": "hologram", "options": {**OWN, "cudagraphs": True}},
}
OURS = ("hologram", "hologram-own", "hologram-graphs")
DEFAULT = ("eager", "inductor", "inductor-graphs", *OURS)
DRY = ("eager", *OURS)
SLICE = 0.02  # seconds of calls in a row
REST = 0.06  # between slices: the chip is power-limited
LIMIT = 300.0  # seconds for a case


def synchronize(device):
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def flat(result):
    return [result] if hasattr(result, "dtype") else [x for part in result for x in flat(part)]


def prepared(peer, module):
    """A call of the module by this peer, and what has to come before each."""
    import torch

    if PEERS[peer] is None:
        return module
    call = torch.compile(module, dynamic=False, **PEERS[peer])
    if not peer.endswith("-graphs") and peer != "max-autotune" or peer in OURS:
        return call

    def marked(*inputs):
        torch.compiler.cudagraph_mark_step_begin()
        return call(*inputs)

    return marked


def step_of(call):
    """A call's result and the gradients of all inputs but the last, which is the result's."""
    import torch

    def step(*inputs):
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in inputs[:-1]]
            result = call(*leaves)
        return result.detach(), *torch.autograd.grad(result, leaves, inputs[-1])

    return step


def reference(case, module, inputs):
    """The results in float64."""
    import copy

    import torch

    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    exact = copy.deepcopy(module).double() if isinstance(module, torch.nn.Module) else module
    return flat((step_of(exact) if case.training else exact)(*wide))


def error_of(case, results, right, inputs):
    """In units of the last place of the sums for products with such a bar, else of the largest value."""
    if case.error is not None:
        x, y = (operand.double().abs() for operand in inputs)
        return ((results[0].double() - right[0]).abs() / (2.0**-24 * (x @ y))).max().item()
    worst = 0.0
    for result, wanted in zip(results, right, strict=True):
        worst = max(worst, ((result.double() - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30)).item())
    return worst


def seconds_of(call, inputs, device, dry):
    """Per call of a slice of calls in a row."""
    synchronize(device)
    start = time.perf_counter()
    call(*inputs)
    synchronize(device)
    count = 1 if dry else max(1, int(SLICE / max(time.perf_counter() - start, 1e-7)))
    if not dry:
        time.sleep(REST)
    start = time.perf_counter()
    for _ in range(count):
        call(*inputs)
    synchronize(device)
    return (time.perf_counter() - start) / count


def first_of(case, peer, dry):
    """Seconds of a first call in this process, imports apart."""
    import hologram_torch  # noqa: F401

    import torch

    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(1))
    device = "cpu" if dry else "cuda"
    module, inputs = case.build(device, dry)
    with torch.no_grad():
        module(*inputs)
        synchronize(device)
        start = time.perf_counter()
        prepared(peer, module)(*inputs)
        synchronize(device)
    return {"first": time.perf_counter() - start}


def measure(case, peers, rounds, dry):
    """All peers of a case, in turns."""
    import hologram_torch

    import torch

    device = "cpu" if dry else "cuda"
    module, inputs = case.build(device, dry)
    found, calls, turns = {}, {}, {}
    with torch.no_grad():
        right = reference(case, module, inputs)
        for peer in peers:
            entry = found[peer] = {}
            try:
                calls[peer] = prepared(peer, module)
                if case.training:
                    calls[peer] = step_of(calls[peer])
                call = calls[peer]
                hologram_torch.reset_stats()
                start = time.perf_counter()
                one = [x.clone() for x in flat(call(*inputs))]
                synchronize(device)
                entry["first"] = time.perf_counter() - start
                stats = hologram_torch.stats()
                entry |= {"fallback_ops": dict(stats["fallback_ops"]), "host_runs": stats["host_runs"]} if peer in OURS else {}
                entry["error"] = error_of(case, one, right, inputs)
                entry["same"] = all(
                    torch.equal(a.cpu().view(torch.uint8), b.cpu().view(torch.uint8))
                    for a, b in zip(one, flat(call(*inputs)), strict=True)
                )
                entry["wrong"] = not entry["error"] <= (case.tolerance if case.error is None else 16)
                for _ in range(0 if dry else 5):
                    call(*inputs)
                if not dry:
                    synchronize(device)
                    torch.cuda.reset_peak_memory_stats()
                    before = torch.cuda.memory_allocated()
                    call(*inputs)
                    synchronize(device)
                    entry["peak"] = torch.cuda.max_memory_allocated() - before
                turns[peer] = [seconds_of(call, inputs, device, dry)]  # kept if a later peer's fault ends the device's context
            except Exception as failure:  # one peer's, not the case's
                entry["failed"] = f"{type(failure).__name__}: {failure}"[:400]
        try:
            for _ in range(0 if dry else rounds - 1):
                for peer in turns:
                    turns[peer].append(seconds_of(calls[peer], inputs, device, dry))
        except Exception as failure:
            found[peer].setdefault("failed", f"{type(failure).__name__}: {failure}"[:400])
        for peer, seconds in turns.items():
            found[peer]["us"] = 1e6 * sorted(seconds)[len(seconds) // 2]
            found[peer]["turns"] = [1e6 * s for s in seconds]
    return found


def machine(dry):
    import torch
    from hologram import _core

    about = {"torch": torch.__version__, "hologram": _core.Runtime("cuda").description}
    if not dry:
        about["gpu"] = torch.cuda.get_device_name()
        x = torch.empty(100_000_000, device="cuda")
        y = torch.empty_like(x)
        seconds = sorted(seconds_of(y.copy_, (x,), "cuda", False) for _ in range(5))[2]
        about["copy_bytes_per_second"] = 8 * x.numel() / seconds
    return about


def child(arguments, environment, limit=LIMIT):
    """What a process of this file's prints, or why it failed."""
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {limit:.0f} s"}
    if done.returncode != 0:
        return {"failed": done.stderr[-2000:]}
    return json.loads(done.stdout.splitlines()[-1])


def environment_of(dry, home):
    """Cold caches in `home`; in a dry run the backend over the tests' driver takes the host's tensors."""
    folders = {name: str(Path(home) / name.lower()) for name in ("HOLOGRAM_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    found = {**os.environ, **folders}
    for folder in folders.values():
        os.makedirs(folder, mode=0o700, exist_ok=True)
    if dry:
        driver = os.environ.get("HOLOGRAM_CUDA_DRIVER", str(ROOT / "build/release/tests/libfakecuda.so"))
        found |= {"HOLOGRAM_BACKEND": "cuda", "HOLOGRAM_CUDA_DRIVER": driver, "HOLOGRAM_CUDA_ASSEMBLER": "driver"}
    return found


def ratio_of(case, entries, us):
    """The time of the best of those beside over ours, None where none was measured."""
    others = [entries[peer]["us"] for peer in case.beside if "us" in entries.get(peer, {})]
    return min(others) / us if others else None


def verdict(case, entries):
    """(our best peer, what it reaches, whether the bar holds), all None where nothing was measured."""
    ours = {peer: entries[peer]["us"] for peer in OURS if "us" in entries.get(peer, {})}
    if not ours:
        return None, None, None
    peer = min(ours, key=ours.get)
    right = entries[peer]["same"] and not entries[peer]["wrong"]
    if case.error is not None:
        right = right and entries[peer]["error"] <= case.error
    if case.at_most is not None:
        return peer, ours[peer], right and ours[peer] <= case.at_most
    ratio = ratio_of(case, entries, ours[peer])
    return peer, ratio, None if ratio is None else right and ratio >= case.at_least


def table(results, cases, dry):
    peers = [peer for peer in PEERS if any(peer in entries for entries in results.values())]
    lines = [f"| case | {' | '.join(peers)} | of the device | bar | reached | holds |", "| --- |" * (len(peers) + 5)]
    lines[1] = "| --- " * (len(peers) + 5) + "|"
    for name, entries in results.items():
        case = cases[name]
        cells = []
        for peer in peers:
            entry = entries.get(peer, {})
            said = "failed" if "failed" in entry else "wrong" if entry.get("wrong") else ""
            cells.append(said or (f"{entry['us']:.1f}" if "us" in entry else ""))
        peer, reached, holds = verdict(case, entries)
        seconds = entries[peer]["us"] / 1e6 if peer else None
        rate = "" if not seconds else f"{case.bytes / seconds / 1e12:.2f} TB/s" if case.bytes else f"{case.flops / seconds / 1e12:.0f} TF/s"
        bar = f"≤ {case.at_most:g} µs" if case.at_most is not None else f"≥ {case.at_least:g}×"
        said = "not yet measured" if reached is None else f"{reached:.2f}"
        lines.append(f"| {name} | {' | '.join(cells)} | {rate if case.bytes or case.flops else ''} | {bar} | {said} | "
                     f"{'' if holds is None or dry else 'yes' if holds else 'no'} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def first_calls(names, dry, results):
    """Cold: with empty caches; warm: a second process with the same."""
    for name in names:
        entry = results[name] = {}
        for peer in ("aot_eager", "inductor", *OURS)[:: 2 if dry else 1]:
            with tempfile.TemporaryDirectory() as home:
                environment = environment_of(dry, home)
                for kind in ("cold", "warm"):
                    found = child(["--worker-first", name, "--peers", peer, *(["--dry"] if dry else [])], environment)
                    entry.setdefault(peer, {})[kind] = found.get("first", found.get("failed"))
        print(f"{name}: {json.dumps(entry)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="*", help="names, or patterns of them, separated by commas")
    parser.add_argument("--peers", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench")
    parser.add_argument("--dry", action="store_true", help="tiny sizes over the emulator; no GPU, no times")
    parser.add_argument("--first", action="store_true", help="first calls of the models")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--worker-first", help=argparse.SUPPRESS)
    given = parser.parse_args()
    here = str(Path(__file__).parent)
    sys.path = [*(path for path in sys.path if path != here), here]  # others import a package `cuda`
    import cuda_cases

    cases = cuda_cases.CASES
    peers = (given.peers or ",".join(DRY if given.dry else DEFAULT)).split(",")
    unknown = [peer for peer in peers if peer not in PEERS]
    if unknown:
        parser.error(f"there is no peer {unknown[0]!r}")
    if given.worker:
        about = {"machine": machine(given.dry)} if given.worker == next(iter(cases)) else {}
        print(json.dumps({"peers": measure(cases[given.worker], peers, given.rounds, given.dry), **about}))
        return 0
    if given.worker_first:
        print(json.dumps(first_of(cases[given.worker_first], peers[0], given.dry)))
        return 0
    names = [name for name in cases if any(fnmatch.fnmatch(name, pattern) for pattern in given.cases.split(","))]
    if not names:
        parser.error(f"no case is called {given.cases!r}; there are {', '.join(cases)}")
    given.out.mkdir(parents=True, exist_ok=True)
    results, failed = {}, False
    if given.first:
        first_calls([name for name in names if cases[name].model], given.dry, results)
        (given.out / "cuda_first.json").write_text(json.dumps(results, indent=1))
        return 0
    written = {}
    for name in names:
        with tempfile.TemporaryDirectory() as home:
            arguments = ["--worker", name, "--peers", ",".join(peers), "--rounds", str(given.rounds), *(["--dry"] if given.dry else [])]
            found = child(arguments, environment_of(given.dry, home))
        written |= {"machine": found["machine"]} if "machine" in found else {}
        results[name] = found.get("peers", {})
        wrong = [peer for peer, e in results[name].items() if "failed" in e or e.get("wrong") or not e.get("same", True)]
        failed |= "failed" in found or any(peer in OURS for peer in wrong)
        print(f"{name}: {found.get('failed') or json.dumps(results[name])}", flush=True)
        written["cases"] = results
        (given.out / "cuda.json").write_text(json.dumps(written, indent=1))
        (given.out / "cuda.md").write_text(table(results, cases, given.dry))
    print((given.out / "cuda.md").read_text())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
