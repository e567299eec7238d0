#!/usr/bin/env python3
# bench/archives.py: models in files: opening, first call, steady calls and memory, beside other runtimes' files
"""    python bench/archives.py [CASE...] [--peers hologram,openvino,onnxruntime,aotinductor] [--rounds 3]
    python bench/archives.py --more [CASE...]

Each peer writes its file once; then fresh processes open it, check a call's values against eager and time calls: imports,
opening and the first call with the libraries imported (and of that the processor time of all threads), the median of later calls,
private memory (USS) beyond the imports beside another process that has the same file open, the file's bytes, and what is kept
beside it on the disk (kernels and packed weights). `hologram` runs the archive's machine code, `hologram graph` compiles its
graph with kernels and packed weights in the cache, `hologram cold` with an empty one. Processes of all peers take turns; the
least time is printed beside the median, and the load average above the table, since a busy machine says little else.

--more: how many times as long a call of the archive takes as one of the frozen model, in turns in one process, and what the machine
code of each instruction set adds to the file."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = ("minilm-1x16", "minilm-8x128")
PEERS = ("hologram cold", "hologram graph", "hologram", "openvino", "onnxruntime", "aotinductor")
CALLS = 30
MIB = 2**20


# --- writing: one process per peer, with PyTorch
def write(case: str, peer: str, folder: Path) -> None:
    import cases
    import numpy as np
    import torch

    torch.set_num_threads(2)
    module, inputs = cases.find(case).build()
    inputs = tuple(inputs)
    with torch.no_grad():
        expected = module(*inputs)
        np.savez(folder / "inputs.npz", *[t.numpy() for t in inputs])
        np.savez(folder / "expected.npz", *[t.numpy() for t in torch.utils._pytree.tree_leaves(expected)])
        WRITERS[peer](module, inputs, folder)


def write_hologram(module, inputs, folder):
    import hologram_torch

    hologram_torch.export(module, inputs, folder / "model.holo")


def write_openvino(module, inputs, folder):
    import openvino
    import torch

    model = openvino.convert_model(torch.export.export(module, inputs))
    openvino.save_model(model, folder / "model.xml", compress_to_fp16=False)


def write_onnxruntime(module, inputs, folder):
    import torch

    torch.onnx.export(module, inputs, dynamo=True, verbose=False).save(str(folder / "model.onnx"))


def write_aotinductor(module, inputs, folder):
    import torch

    program = torch.export.export(module, inputs)
    torch._inductor.aoti_compile_and_package(
        program, package_path=str(folder / "model.pt2"), inductor_configs={"freezing": True}
    )


WRITERS = {
    "hologram": write_hologram,
    "openvino": write_openvino,
    "onnxruntime": write_onnxruntime,
    "aotinductor": write_aotinductor,
}
FILES = {"hologram": "*.holo", "openvino": "model.*", "onnxruntime": "model.onnx*", "aotinductor": "*.pt2"}


# --- opening: fresh processes; each gives (open() → call() → list of arrays)
def open_hologram(folder, arrays):
    import hologram

    model = hologram.load(folder / "model.holo", trust=os.environ["ARCHIVE_TRUSTED"] == "1")
    return lambda: model(*arrays)


def open_openvino(folder, arrays):
    import openvino

    config = {"INFERENCE_NUM_THREADS": 2, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(folder / "model.xml", "CPU", config).create_infer_request()
    return lambda: list(request.infer(arrays, share_inputs=True).values())


def open_onnxruntime(folder, arrays):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 2, 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    feeds = {i.name: a for i, a in zip(session.get_inputs(), arrays)}
    return lambda: session.run(None, feeds)


def open_aotinductor(folder, arrays):
    import torch

    torch.set_num_threads(2)
    model = torch._inductor.aoti_load_package(str(folder / "model.pt2"))
    tensors = [torch.from_numpy(a) for a in arrays]
    return lambda: torch.utils._pytree.tree_map(lambda t: t.detach().numpy(), torch.utils._pytree.tree_leaves(model(*tensors)))


OPENERS = {
    "hologram": ("hologram.archive", open_hologram),
    "openvino": ("openvino", open_openvino),
    "onnxruntime": ("onnxruntime", open_onnxruntime),
    "aotinductor": ("torch._inductor", open_aotinductor),
}


def private_bytes() -> int:
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith("Private_"))


def measure(peer: str, folder: Path) -> tuple:
    import importlib

    import numpy as np

    module, open_ = OPENERS[peer]
    begin = time.perf_counter()
    importlib.import_module(module)
    imported = time.perf_counter() - begin
    with np.load(folder / "inputs.npz") as file:
        arrays = [file[name] for name in file.files]
    before = private_bytes()
    begin, begin_cpu = time.perf_counter(), time.process_time()
    call = open_(folder, arrays)
    results = call()
    first, first_cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    with np.load(folder / "expected.npz") as file:
        expected = [file[name] for name in file.files]
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    errors = [float(np.abs(r - e).max() / max(np.abs(e).max(), 1e-30)) for r, e in zip(results, expected, strict=True)]
    if max(errors) > 1e-3:
        raise SystemExit(f"{peer}: wrong values, error {max(errors):.1e}")
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    private = private_bytes() - before
    steady = statistics.median(times)
    return call, {"import": imported, "first": first, "first_cpu": first_cpu, "steady": steady, "private": private}


# --- the table
def environment_of(peer: str, cache: Path) -> dict:
    trusted = "1" if peer == "hologram" else "0"
    return {
        **os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "2", "HOLOGRAM_CACHE_DIR": str(cache), "HOLOGRAM_TRUSTED": "off",
        "ARCHIVE_TRUSTED": trusted,
    }  # fmt: skip


def run(arguments, folder, cache, peer="") -> subprocess.CompletedProcess:
    environment = environment_of(peer, cache)
    command = [sys.executable, __file__, *arguments, "--folder", str(folder)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


class Sibling:
    """A process that has called the file of `peer` and keeps it open, until close()."""

    def __init__(self, peer: str, folder: Path, cache: Path) -> None:
        command = [sys.executable, __file__, "--open", peer.split()[0], "--stay", "--folder", str(folder)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=environment_of(peer, cache),
        )  # fmt: skip
        self.process.stdout.readline()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def compare(case: str, peers: list[str], rounds: int) -> dict:
    found, siblings = {}, {}
    with tempfile.TemporaryDirectory() as root:
        ready = {}
        for peer in peers:
            kind = peer.split()[0]
            folder = Path(root) / kind
            if not folder.exists():
                folder.mkdir()
                done = run(["--write", case, kind], folder, Path(root) / "export")
                if done.returncode:
                    print(f"{case} {peer}: cannot be written: {done.stderr.strip().splitlines()[-1][:160]}", flush=True)
                    continue
                ready[kind] = sum(f.stat().st_size for f in folder.glob(FILES[kind]))
            if kind in ready and not peer.endswith("cold"):
                siblings[peer] = Sibling(peer, folder, Path(root) / "cache")
        for number in range(rounds):
            for peer in peers:
                kind = peer.split()[0]
                if kind not in ready:
                    continue
                cache = Path(root) / (f"cold{number}" if peer.endswith("cold") else "cache")
                done = run(["--open", kind], Path(root) / kind, cache, peer)
                if done.returncode:
                    print(f"{case} {peer}: {done.stderr.strip().splitlines()[-1][:200]}", flush=True)
                    del ready[kind]
                    continue
                kept = sum(f.stat().st_size for f in cache.rglob("*") if f.is_file()) if kind == "hologram" else 0
                figures = {**json.loads(done.stdout.splitlines()[-1]), "bytes": ready[kind], "kept": kept}
                found.setdefault(peer, []).append(figures)
        for sibling in siblings.values():
            sibling.close()
    return found


# --- steady calls beside the frozen model, and what machine code adds to a file
def more(case: str) -> None:
    import cases
    import hologram
    import hologram_torch
    import torch

    torch.set_num_threads(2)
    module, inputs = cases.find(case).build()
    arrays = [t.numpy() for t in inputs]
    with tempfile.TemporaryDirectory() as root, torch.no_grad():
        sizes = {isas: hologram_torch.export(module, inputs, Path(root) / "sizes.holo", isas=isas).bytes
                 for isas in ((), ("sse42",), ("avx2",), ("avx512",), ("amx",))}  # fmt: skip
        hologram_torch.export(module, inputs, Path(root) / "model.holo")
        archive = hologram.load(Path(root) / "model.holo", trust=True)
        frozen = hologram_torch.freeze(module, tuple(inputs))
        calls = {"archive": lambda: archive(*arrays), "frozen": lambda: frozen(*inputs)}
        times = {name: [] for name in calls}
        for _ in range(20 * CALLS):
            for name, call in calls.items():
                begin = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - begin)
    least, median = ({name: of(t) for name, t in times.items()} for of in (min, statistics.median))
    print(f"{case}: a call of the archive {1e3 * least['archive']:.2f} ms (least of {20 * CALLS}, in turns), "
          f"{least['archive'] / least['frozen']:.2f} times the frozen model's; "
          f"medians {median['archive'] / median['frozen']:.2f}")  # fmt: skip
    print(f"{case}: {sizes[()] / MIB:.1f} MiB without code; " + ", ".join(
        f"{isas[0]} adds {(n - sizes[()]) / MIB:.2f} MiB" for isas, n in sizes.items() if isas), flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--more", action="store_true", help="steady calls beside freeze, and the sizes of machine code")
    parser.add_argument("--json", metavar="FILE", help="write all measurements there")
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--open", help=argparse.SUPPRESS)
    parser.add_argument("--stay", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        return write(*options.write, options.folder)
    if options.open:
        call, figures = measure(options.open, options.folder)
        print(json.dumps(figures), flush=True)
        if options.stay:
            sys.stdin.read()
        del call
        return None
    if options.more:
        return [more(case) for case in options.cases] and None
    results = {}
    for case in options.cases:
        load = os.getloadavg()[0]
        print(f"{case}: medians of {options.rounds} processes, and the least time of a first call; load average {load:.1f} at the start"
              f"{', which is busy' if load > 2 else ''}")  # fmt: skip
        heads = (("import", 9), ("open + first", 13), ("least", 10), ("processor", 10), ("steady", 10), ("private", 9), ("file", 9),
                 ("beside", 8))  # fmt: skip
        print(f"{'':14}" + "".join(f" {name:>{width}}" for name, width in heads))
        results[case] = compare(case, options.peers.split(","), options.rounds)
        for peer, runs in results[case].items():
            m = {key: statistics.median(r[key] for r in runs) for key in runs[0]}
            print(
                f"{peer:14} {1e3 * m['import']:6.0f} ms {1e3 * m['first']:10.1f} ms "
                f"{1e3 * min(r['first'] for r in runs):7.1f} ms {1e3 * m['first_cpu']:7.0f} ms {1e3 * m['steady']:7.2f} ms "
                f"{m['private'] / MIB:5.0f} MiB {m['bytes'] / MIB:5.0f} MiB {m['kept'] / MIB:4.0f} MiB",
                flush=True,
            )  # fmt: skip
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
