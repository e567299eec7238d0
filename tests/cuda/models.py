#!/usr/bin/env python3
# tests/cuda/models.py: the models of bench/shared/zoo.py on CUDA tensors beside eager
"""Compiles each model with and without the backend's own products. Its results must be as near the truth, the same weights in
float64, as eager's (three times its error at most, in the root of the mean square), the same bits in two calls, with nothing on the
host and nothing in PyTorch but what KNOWN names.

    python tests/cuda/models.py --models mlp,bert --types float32 --json models.json
    HOLOGRAM_BACKEND=cuda python tests/cuda/models.py --device cpu     # tensors of the host, copied to the GPU and back
"""

import argparse
import copy
import fnmatch
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/torch"), str(ROOT / "bench/shared")]
import torch  # noqa: E402
from harness import rms, run_eager  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402
from zoo import ZOO  # noqa: E402

LAYERS = ("aten.*_rnn*", "aten.lstm*", "aten.gru*")  # nn.LSTM and nn.GRU, which are PyTorch's on a GPU
KNOWN = {
    "own": LAYERS,
    "pytorchs": (*LAYERS, "aten.mm.*", "aten.addmm.*", "aten.bmm.*", "aten.baddbmm.*", "aten.*convolution.*", "aten.*scaled_dot_product*"),
}


def fault(result, eager, truth) -> str:
    """What is wrong with a result, or nothing."""
    if (result.shape, result.dtype, result.device) != (eager.shape, eager.dtype, eager.device):
        return f"{result.dtype}{list(result.shape)} on {result.device}, eager has {eager.dtype}{list(eager.shape)} on {eager.device}"
    if not torch.equal(result.isfinite(), eager.isfinite()):
        return "other places are finite than eager's"
    if not eager.is_floating_point():
        return "" if torch.equal(result, eager) else "other integers than eager's"
    ours, eagers = rms(result.double() - truth), rms(eager.double() - truth)
    bound = 3 * eagers + torch.finfo(eager.dtype).eps * rms(truth)
    return "" if ours <= bound else f"an error of {ours:.3g}, eager's is {eagers:.3g}"


def same_bits(x, y) -> bool:
    return torch.equal(x.contiguous().view(torch.uint8), y.contiguous().view(torch.uint8)) if x.numel() else x.shape == y.shape


def trial(name, dtype, products, device, backend="hologram") -> dict:
    """{"seconds", "faults": list, "fallback_ops"}"""
    import hologram_torch

    case, start = ZOO[name](dtype), time.perf_counter()
    module = case.module.to(device)
    inputs = pytree.tree_map_only(torch.Tensor, lambda x: x.to(device), case.inputs)
    torch._dynamo.reset()
    with torch.no_grad():
        eager = pytree.tree_leaves(run_eager(module, inputs))
        truth = pytree.tree_leaves(run_eager(module, inputs, torch.float64))
        options = {"options": {"native_products": products == "own"}} if backend == "hologram" else {}
        call = torch.compile(copy.deepcopy(module), backend=backend, dynamic=False, **options)
        hologram_torch.reset_stats()
        host = hologram_torch.stats()["host_runs"]
        first = [x.clone() for x in pytree.tree_leaves(call(*inputs))]
        again = pytree.tree_leaves(call(*inputs))
    stats = hologram_torch.stats()
    faults = [f"result {n}: {text}" for n, parts in enumerate(zip(first, eager, truth, strict=True)) if (text := fault(*parts))]
    if not all(map(same_bits, first, again)):
        faults.append("two calls differ")
    left = [op for op in stats["fallback_ops"] if not any(fnmatch.fnmatch(op, known) for known in KNOWN[products])]
    if left:
        faults.append(f"left to PyTorch: {', '.join(left)}")
    if stats["host_runs"] != host:
        faults.append(f"{stats['host_runs'] - host} steps on the host")
    if stats["failed_graphs"]:
        faults.append("a graph did not compile")
    return {"seconds": time.perf_counter() - start, "faults": faults, "fallback_ops": dict(stats["fallback_ops"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="hologram")
    parser.add_argument("--models", default="*", help="names, or patterns of them, separated by commas")
    parser.add_argument("--types", default="float32,bfloat16")
    parser.add_argument("--products", default="own,pytorchs", help="whose products: own, pytorchs")
    parser.add_argument("--json", type=Path, help="write the results here, behind each model")
    given = parser.parse_args()
    names = [name for name in ZOO if any(fnmatch.fnmatch(name, pattern) for pattern in given.models.split(","))]
    if not names:
        parser.error(f"no model is called {given.models!r}; there are {', '.join(ZOO)}")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    found = {}
    for name in names:
        for dtype in given.types.split(","):
            for products in given.products.split(","):
                try:
                    entry = trial(name, getattr(torch, dtype), products, given.device, given.backend)
                except Exception as error:  # this model's; the others go on
                    entry = {"seconds": 0.0, "faults": [f"{type(error).__name__}: {error}"[:400]]}
                found[f"{name} {dtype} {products}"] = entry
                print(f"{name} {dtype} {products}: {'; '.join(entry['faults']) or 'right'}, {entry['seconds']:.1f} s", flush=True)
                if given.json:
                    given.json.write_text(json.dumps(found, indent=1))
    bad = sum(bool(entry["faults"]) for entry in found.values())
    print(f"{len(found)} trials of {len(names)} models, {bad} failed")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
