#!/usr/bin/env python3
# bench/webgpu.py: the zoo's models on WebGPU, checked against eager: kernels and submissions beside the CPU's plan
"""Prints a line for each model of bench/shared/zoo.py. No speed is measured: software Vulkan has none.

    python bench/webgpu.py [--device webgpu] [--dtype float32] [--training] [mlp llama …]
"""

import argparse
import copy
import sys
from pathlib import Path

import torch
from torch import nn

import hologram_torch

sys.path.append(str(Path(__file__).resolve().parent / "shared"))
from zoo import ZOO  # noqa: E402

COUNTS = "dispatches", "submissions", "host_runs"


def counts(device) -> dict:
    from hologram_torch import runtimes

    return runtimes.runtime("cpu", device).counts


def step(call, inputs, training) -> list:
    """The results; in training the gradients of their squares' sum too."""
    if not training:
        with torch.no_grad():
            return torch.utils._pytree.tree_leaves(call(*inputs))
    results = torch.utils._pytree.tree_leaves(call(*inputs))
    sum(r.float().square().sum() for r in results).backward()
    return [r.detach() for r in results]


def run(case, options, training):
    """(kernels, results and gradients, the counts of a second call)"""
    torch._dynamo.reset()
    hologram_torch.reset_stats()
    module = copy.deepcopy(case.module).train(training)
    if not training:
        module.requires_grad_(False)
    for m in module.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    call = torch.compile(module, backend="hologram", options=options) if options is not None else module
    results = step(call, case.inputs, training) + [p.grad for p in module.parameters() if p.grad is not None]
    kernels, device = hologram_torch.stats()["kernels"], (options or {}).get("device")
    if device is None:
        return kernels, results, None
    before = counts(device)
    step(call, case.inputs, training)
    return kernels, results, {name: counts(device)[name] - before[name] for name in COUNTS}


def error_of(got, wanted) -> float:
    """The largest difference, beside the largest number of its tensor."""
    worst = 0.0
    for g, w in zip(got, wanted, strict=True):
        scale = max(1.0, w.float().abs().max().item())
        worst = max(worst, (g.float() - w.float()).abs().max().item() / scale)
    return worst


def models(names, device, dtype, training):
    print("| model | kernels | of the CPU's plan | dispatches a call | submissions | on the host | error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        case = ZOO[name](dtype)
        _, wanted, _ = run(case, None, training)
        planned, _, _ = run(case, {}, training)
        kernels, got, calls = run(case, {"device": device}, training)
        figures = (kernels, planned, *calls.values(), f"{error_of(got, wanted):.0e}")
        print(f"| {name} |", " | ".join(map(str, figures)), "|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--training", action="store_true")
    options = parser.parse_args()
    models(options.models or ZOO, options.device, getattr(torch, options.dtype), options.training)


if __name__ == "__main__":
    main()
