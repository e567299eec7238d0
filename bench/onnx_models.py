#!/usr/bin/env python3
# bench/onnx_models.py: hologram.from_onnx beside ONNX Runtime on the same files
"""Models of bench/cases.py, exported by torch.onnx.export: values, time of a call, and time from the file to the first result.

    python bench/onnx_models.py [CASE...] [--seconds 0.5] [--threads 2] [--folder DIR] [--rounds 3] [--markdown FILE]

Calls are taken in turns in one process, the ratio within each turn. The first result is that of a fresh process which has imported
NumPy, imports of the runtime included: `from_onnx` of the file with Hologram's cache filled and (`empty`) with an empty one, the archive
that `hologram compile` makes of it, ONNX Runtime. Files stay in --folder for the next run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CASES = ("mlp-1", "mlp-64", "resnet18-1", "mobilenet-1", "minilm-1x16", "minilm-8x128", "gpt-prefill-1x128")
TOLERANCE = 2e-3  # of the largest value: both round float32


def export(name, folder):
    """Writes NAME.onnx and NAME.npz with its inputs, unless they are there."""
    path, arrays = folder / f"{name}.onnx", folder / f"{name}.npz"
    if path.exists() and arrays.exists():
        return path, arrays
    import cases
    import models
    import torch

    torch.manual_seed(0)
    case = cases.find(name)
    module, inputs = case.build()
    module, inputs = case.stateless(module, inputs) if case.stateless else (models.as_module(module), inputs)
    with torch.no_grad():
        torch.onnx.export(module, inputs, dynamo=True, verbose=False).save(str(path))
    np.savez(arrays, *[x.numpy() for x in inputs])
    return path, arrays


def load(arrays):
    with np.load(arrays) as file:
        return [file[n] for n in file.files]


def runtime(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [v.name for v in session.get_inputs()]
    return lambda *arrays: session.run(None, dict(zip(names, arrays)))


def ours(path, threads=None):
    import hologram

    model = hologram.from_onnx(path)
    return lambda *arrays: model.flat(arrays)


def archived(path, threads=None):
    import hologram

    method = hologram.load(Path(path).with_suffix(".holo")).methods["forward"]
    return lambda *arrays: method.flat(list(arrays))


PEERS = {"empty": ours, "from_onnx": ours, "archive": archived, "onnxruntime": runtime}


def first(peer, path, arrays, threads):
    """Seconds until the first result, in this process."""
    inputs = load(arrays)
    begin = time.perf_counter()
    PEERS[peer](path, threads)(*inputs)
    return time.perf_counter() - begin


def first_results(path, arrays, threads, rounds):
    """The least of some processes, by peer."""
    best = dict.fromkeys(PEERS, float("inf"))
    for _ in range(rounds + 1):
        for peer in PEERS:
            command = [sys.executable, __file__, "--first", peer, str(path), str(arrays), "--threads", str(threads)]
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # as an installation has it
            environment["PYTHONPYCACHEPREFIX"] = str(path.parent / "pycache")
            with tempfile.TemporaryDirectory() as empty:
                cache = {"HOLOGRAM_CACHE_DIR": empty} if peer == "empty" else {}
                done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment | cache)
            best[peer] = min(best[peer], json.loads(done.stdout))
    return best


def measure(name, folder, args):
    import hologram
    from turns import take_turns

    path, arrays = export(name, folder)
    inputs = load(arrays)
    model = hologram.from_onnx(path)
    theirs, mine = runtime(path, args.threads), lambda *arrays: model.flat(arrays)
    for want, got in zip(theirs(*inputs), mine(*inputs), strict=True):
        off = np.abs(np.asarray(want, np.float64) - got).max() / max(np.abs(want).max(), 1e-30)
        if want.shape != got.shape or off > TOLERANCE:
            return {"case": name, "error": f"values differ by {off:.1e} of the largest"}
    model._kept.finish()  # good kernels, in place of the first call's
    hologram.from_onnx(path).save(path.with_suffix(".holo"))
    turns = take_turns({"onnxruntime": lambda: theirs(*inputs), "hologram": lambda: mine(*inputs)}, args.seconds)
    least = turns.fastest()
    return {
        "case": name, "ratio": turns.median(["onnxruntime"], "hologram"), "quartiles": turns.ratio(["onnxruntime"], "hologram"),
        "hologram": least["hologram"], "onnxruntime": least["onnxruntime"],
        "first": first_results(path, arrays, args.threads, args.rounds),
    }  # fmt: skip


def lines(rows):
    head = "first result: ONNX Runtime, s | from_onnx, empty cache, s | from_onnx, s | archive, s |"
    yield f"| case | ONNX Runtime, ms | Hologram, ms | ratio (quartiles) | {head}"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    good = [row for row in rows if "error" not in row]
    for row in rows:
        if "error" in row:
            yield f"| {row['case']} | | | {row['error']} | | | | |"
            continue
        f = row["first"]
        yield (
            f"| {row['case']} | {1e3 * row['onnxruntime']:.3f} | {1e3 * row['hologram']:.3f} | {row['quartiles']} "
            f"| {f['onnxruntime']:.3f} | {f['empty']:.3f} | {f['from_onnx']:.3f} | {f['archive']:.3f} |"
        )
    if good:
        ratios = [row["ratio"] for row in good]
        starts = [[row["first"]["onnxruntime"] / row["first"][p] for row in good] for p in ("empty", "from_onnx", "archive")]
        means = [float(np.exp(np.mean(np.log(values)))) for values in (ratios, *starts)]
        first, *starts = [f"{mean:.2f}" for mean in means]
        yield f"| geometric mean of ONNX Runtime's time over ours | | | {first} | | {' | '.join(starts)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--first", choices=list(PEERS))
    args = parser.parse_args()
    if args.first:
        print(first(args.first, *args.cases, args.threads))
        return 0
    os.environ.setdefault("HOLOGRAM_NUM_THREADS", str(args.threads))
    folder = args.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in args.cases or CASES:
        try:
            rows.append(measure(name, folder, args))
        except Exception as error:  # a case that fails is a row of the table
            rows.append({"case": name, "error": f"{type(error).__name__}: {str(error)[:120]}"})
        print(rows[-1], file=sys.stderr)
    text = "\n".join(lines(rows))
    print(text)
    if args.markdown:
        args.markdown.write_text(text + "\n", encoding="utf-8")
    return any("error" in row for row in rows)


if __name__ == "__main__":
    sys.exit(main())
