#!/usr/bin/env python3
# bench/conformance/onnx_drawn.py: random ONNX models by NNSmith, beside ONNX Runtime
"""Draws models with NNSmith, runs them through hologram.from_onnx and compares with ONNX Runtime, its optimisations off.

    pip install --target DIR nnsmith "z3-solver" antlr4-python3-runtime==4.9.3    # an old package: apart from the others
    python bench/conformance/onnx_drawn.py FOLDER --draw 100 --nnsmith DIR      # models of 5 to 16 nodes, into FOLDER
    python bench/conformance/onnx_drawn.py FOLDER                               # run them, and sum up

Draws need PyTorch, whose exporter NNSmith calls. Status of a model: native (right, by graphs alone), numpy (right, NumPy
computed a part), refused (NotImplementedError), wrong, peer (ONNX Runtime does not run it). Right is what ONNX Runtime gives or, where it
rounds float16 less often than the standard says, what ONNX's own reference gives.
"""

import argparse
import collections
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

DRAW = """
import sys, torch, torch.onnx.utils
from hydra.core.global_hydra import GlobalHydra
export = torch.onnx.export
torch.onnx.export = lambda *args, **options: export(*args, **{**options, "dynamo": False})  # as when NNSmith was written
from nnsmith.cli.model_gen import main
folder, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for seed in range(first, last):
    GlobalHydra.instance().clear()
    sys.argv = ["draw", "model.type=onnx", "debug.viz=false", f"mgen.seed={seed}", f"mgen.max_nodes={5 + seed % 12}",
                f"mgen.save={folder}/{seed}"]
    try:
        main()
    except (Exception, SystemExit) as error:  # not every seed gives a model
        print(f"seed {seed}: {type(error).__name__}", file=sys.stderr)
"""
TYPES = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "int64": np.int64, "int32": np.int32, "int8": np.int8,
    "uint8": np.uint8, "bool": np.bool_,
}  # fmt: skip


def draw(folder, count, nnsmith):
    """Models number 0 to count - 1, those that are there left as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    first = max((int(d.name) + 1 for d in folder.iterdir() if d.name.isdigit()), default=0)
    command = [sys.executable, "-c", DRAW, str(folder.resolve()), str(first), str(count)]
    subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": nnsmith}, check=True)  # where it leaves its own logs too


def operands(session, seed):
    """Values of the inputs: floats from 1 to 2, small integers."""
    rng = np.random.default_rng(seed)
    for value in session.get_inputs():
        dtype = np.dtype(TYPES[value.type.removeprefix("tensor(").rstrip(")")])
        x = rng.uniform(1, 2, value.shape) if dtype.kind == "f" else rng.integers(0, 2 if dtype == bool else 5, value.shape)
        yield value.name, np.asarray(x).astype(dtype)


def compare(name, want, got):
    assert want.dtype == got.dtype and want.shape == got.shape, f"{name}: {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    tolerance = 2e-2 if want.dtype == np.float16 else 1e-3
    want, got = want.astype(np.float64), got.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance / 10, err_msg=name)


def compare_all(names, expected, results):
    for name, want, got in zip(names, expected, results, strict=True):
        compare(name, want, got)


def run(path, seed=1):
    """(status, what is wrong) of a model."""
    import hologram
    import onnxruntime as ort
    from onnx.reference import ReferenceEvaluator

    options = ort.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feed = dict(operands(session, seed))
        expected = session.run(None, feed)
    except Exception as error:  # whatever its reason, there is nothing to compare with
        return "peer", str(error)
    try:
        function = hologram.from_onnx(path)
        results = function.flat([feed[name] for name in function.inputs])
        try:
            compare_all(function.outputs, expected, results)
        except AssertionError:
            compare_all(function.outputs, ReferenceEvaluator(str(path)).run(None, feed), results)
    except NotImplementedError as error:
        return "refused", str(error)
    except Exception as error:  # whatever goes wrong is this model's
        return "wrong", f"{type(error).__name__}: {error}".strip()
    return ("numpy" if function.stats()["fallback_ops"] else "native"), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draw", type=int, metavar="N", help="draw until there are so many, before they are run")
    parser.add_argument("--nnsmith", metavar="DIR", help="where NNSmith is installed")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.draw:
        draw(options.folder, options.draw, options.nnsmith or "")
    found = collections.Counter()
    for path in sorted(options.folder.glob("*/model.onnx"), key=lambda p: int(p.parent.name)):
        status, message = run(path)
        found[status] += 1
        if status in ("refused", "wrong"):
            print(f"{path}: {status}: {' '.join(message.split())[:300]}")
    print(f"{found.total()} models: " + ", ".join(f"{n} {status}" for status, n in found.most_common()))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
