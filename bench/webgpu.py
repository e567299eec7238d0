#!/usr/bin/env python3
# bench/webgpu.py: the zoo's models on WebGPU, checked against eager: kernels and submissions beside the CPU's plan; launches
"""Prints a line for each model of bench/shared/zoo.py, or what launches cost. No model's speed is measured: software Vulkan has none.

    python bench/webgpu.py [--device webgpu] [--dtype float32] [--training] [mlp llama …]
    python bench/webgpu.py --launches [--device webgpu]
"""

import argparse
import copy
import functools
import sys
import time
from pathlib import Path

import torch
from torch import nn

import hologram
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


def chain(length, device):
    """A compiled function of so many steps, none of which can be one with the next: each sorts three numbers."""
    torch._dynamo.reset()
    steps = lambda x: functools.reduce(lambda y, _: y.argsort(), range(length), x)
    return torch.compile(steps, backend="hologram", options={"device": device}, dynamic=False)


def one_more(calls: dict, rounds: int) -> float:
    """Seconds that one more of what `calls` do costs, by the least times of the fewest and of the most."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for count, call in calls.items():
            begin = time.perf_counter()
            call()
            least[count] = min(least[count], time.perf_counter() - begin)
    few, many = min(calls), max(calls)
    return (least[many] - least[few]) / (many - few)


def launches(device):
    x = torch.tensor([2, 0, 1])
    chains = {n: functools.partial(chain(n, device), x) for n in (100, 200)}
    for call in chains.values():
        call()
    dispatch = one_more(chains, 100)
    with hologram.Executor(device) as executor:
        operand, result = executor.from_numpy(x.float().numpy()), executor.allocate(3)

        def submissions(count):
            for _ in range(count):
                hologram.ops.vector_add(executor, operand, operand, result)
            executor.synchronize()

        submission = one_more({n: functools.partial(submissions, n) for n in (10, 20)}, 200)
        print(f"{executor.backend}: a dispatch {dispatch * 1e6:.1f} us, a submission of one dispatch {submission * 1e6:.1f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--launches", action="store_true")
    options = parser.parse_args()
    if options.launches:
        return launches(options.device)
    models(options.models or ZOO, options.device, getattr(torch, options.dtype), options.training)


if __name__ == "__main__":
    main()
