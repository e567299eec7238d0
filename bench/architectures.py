#!/usr/bin/env python3
# bench/architectures.py: whole architectures of four packages against eager PyTorch, each in a process of its own
"""Builds each architecture of architecture_list.py with random weights, compiles it, checks its results against eager, and times both
sides in turns; prints seconds to the first result, our share of them (all stages of hologram_torch.stats()), the ratio of the best times
(above 1: ours is faster), the largest difference and what fell back to PyTorch; then what is slower than eager, and what our compiler
took longest for.

    python bench/architectures.py [--threads 2] [--seconds 1] [--only bert,vit] [--train] [--package transformers] [--limit 600]

With --train one step in training mode (two images of each, with dropout where the model has it; where eager cannot, in evaluation mode)
is compared instead, and nothing is timed: the gradients of all parameters, and buffers such as running averages. At the kink of a ReLU a
rounding decides over a whole gradient, in eager as in kernels; so where some differ by more than 1e-3, steps in float32 are compared with
eager's in float64: each tensor of ours has to be nearer to it than 1e-3, or at most three times as far from it as eager's, by norms. Of
eager's there are up to nine, the first of the same numbers, the others of inputs and parameters moved by a unit in the last place at
most: how far roundings lead. What is farther still, but within 1 % by norms, is right if its step in float64 is eager's within 1e-6: a
kink that no moved step met.
Packages that are missing are left out (`pip install hologram-compute[architectures]`). A model that ends its process or exceeds --limit
costs that model only.
"""

import argparse
import copy
import itertools
import json
import logging
import math
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.utils._pytree as pytree
from architecture_list import PACKAGES, architectures
from turns import take_turns

import hologram_torch

sys.path.append(str(Path(__file__).resolve().parent / "shared"))
import limited  # noqa: E402

CLOSE = 1e-3  # beside the largest element of a tensor
TIMES, MOVED = 3, 8  # so far from float64 as eager a step may be where that is missed; eager's further steps
NEAR, EXACT = 0.01, 1e-6  # in float32 by norms, in float64: where that is missed too


def tensors(output) -> list:
    if isinstance(output, torch.Tensor):
        return [output]
    values = output.values() if hasattr(output, "values") else output if isinstance(output, (list, tuple)) else ()
    return [t for value in values for t in tensors(value)]


def step(call, model) -> dict:
    """Gradients of a fixed random combination of the results, and buffers behind the step, by name; the same draws each time."""
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(7)
    results = [t for t in tensors(call(model)) if t.requires_grad]
    results = [t.to(torch.promote_types(t.dtype, torch.float32)) for t in results]
    sum((t * torch.randn(t.shape, generator=generator)).mean() for t in results).backward()
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None} | dict(model.named_buffers())


def both(value):
    """Two images, clips or pairs of frames in place of one."""
    if isinstance(value, torch.Tensor) and value.dim() > 3 and len(value) == 1:
        return torch.cat([value, value.flip(-1) + 0.1])
    return value


def largest(t) -> torch.Tensor:
    return t.abs().max()


def differences(ours, theirs, size=largest) -> list:
    """How far each tensor of numbers is off, beside its size; what is nearly zero counts beside the largest of all."""
    ours, theirs = list(ours), list(theirs)
    if [t.shape for t in ours] != [t.shape for t in theirs]:
        return [math.inf]
    pairs = [(a.double(), b.double()) for a, b in zip(ours, theirs) if b.is_floating_point() and b.numel() > 0]
    floor = max(1e-4 * max((size(b).item() for _, b in pairs), default=0.0), 1e-30)
    errors = [size(a - b).item() / max(size(b).item(), floor) for a, b in pairs]
    return [error if error == error else math.inf for error in errors]


def difference(ours, theirs) -> float:
    return max(differences(ours, theirs), default=0.0)


def times_eagers(ours, truth, theirs) -> float:
    """How many times as far from `truth` as eager's steps `theirs` the tensors of ours are that are not close to it: the most. Steps are
    taken as long as it is too much."""
    ours, times = differences(ours, truth, torch.linalg.vector_norm), math.inf
    reach = [1e-30] * len(ours)
    for step in theirs:
        errors = differences(step, truth, torch.linalg.vector_norm)
        reach = [max(pair) if pair[1] < math.inf else pair[0] for pair in zip(reach, errors, strict=True)]
        times = max((error / far for error, far in zip(ours, reach) if not error < CLOSE), default=0.0)
        if times <= TIMES:
            break
    return times


def measure(name: str, build, train: bool, seconds: float) -> dict:
    hologram_torch.reset_stats()
    row = {"name": name, "difference": math.inf, "error": None}
    try:
        compare_steps(row, build) if train else compare(row, *built(build, 0), seconds)
    except EagerFailed:
        raise
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
    stats = hologram_torch.stats()
    row["compile"] = stats["compile_ms"].get("total", 0.0)
    row["graphs"], row["fallback"] = stats["graphs"], sorted(stats["fallback_ops"])
    if stats["failed_graphs"]:
        row["error"] = row["error"] or f"{stats['failed_graphs']} graphs failed to compile"
    close = row["difference"] < CLOSE or row.get("times", math.inf) <= TIMES or row.get("exact", math.inf) < EXACT
    row["right"] = close and not row["error"]
    return row


def built(build, seed) -> tuple:
    """→ (model, arguments, keywords)"""
    torch._dynamo.reset()
    torch.manual_seed(seed)
    model, arguments, named = build()
    return model.eval(), arguments, named  # random operators off


class EagerFailed(Exception):
    """Eager cannot run it."""


def compile_(model):
    return torch.compile(model, backend=hologram_torch.hologram)


def eager_step(model, arguments, named) -> tuple:
    """→ (the model, in training mode if it can be, how to call one, what its step gives)"""
    failed = None
    for mode, inputs in ((True, tuple(map(both, arguments))), (False, arguments)):
        def call(target, inputs=inputs):
            return target(*inputs, **named)

        try:
            copied = copy.deepcopy(model).train(mode)
            return model.train(mode), call, step(call, copied)
        except Exception as error:  # batch norm of one value, detectors that want targets
            failed = error
    raise EagerFailed(str(failed)) from failed


def steps(row, model, arguments, named) -> tuple:
    """→ what our step gives and what eager's does, in the same order"""
    model, call, theirs = eager_step(model, arguments, named)
    row["mode"] = "training" if model.training else "evaluation"
    compiled = compile_(model)  # eager's step was a copy's
    ours = step(lambda _: call(compiled), model)
    if ours.keys() != theirs.keys():
        raise ValueError(f"gradients of other parameters: {sorted(ours.keys() ^ theirs.keys())[:3]}")
    return ours.values(), theirs.values()


def changed(build, change) -> list:
    """Eager's step with each tensor of numbers, of inputs and of the model, as `change` makes it."""
    model, *inputs = built(build, 0)
    for t in (*model.parameters(), *model.buffers()):
        t.data = change(t.data) if t.is_floating_point() else t.data
    inputs = pytree.tree_map_only(torch.Tensor, lambda t: change(t) if t.is_floating_point() else t, inputs)
    return list(eager_step(model, *inputs)[2].values())


def moved(seed: int):
    """A function of a tensor that moves its numbers by a unit in the last place at most."""
    generator = torch.Generator().manual_seed(seed)
    return lambda t: (t * (1 + (torch.rand(t.shape, generator=generator).double() - 0.5) * torch.finfo(t.dtype).eps)).to(t.dtype)


def doubled(build) -> tuple:
    model, *inputs = built(build, 0)
    return model.double(), *pytree.tree_map_only(torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, inputs)


def compare_steps(row, build) -> None:
    ours, theirs = map(list, steps(row, *built(build, 0)))
    row["difference"] = difference(ours, theirs)
    if CLOSE <= row["difference"] < math.inf:
        others = (changed(build, moved(seed)) for seed in range(MOVED))
        truth = changed(build, torch.Tensor.double)
        row["times"] = times_eagers(ours, truth, itertools.chain([theirs], others))
        if row["times"] > TIMES and max(differences(ours, truth, torch.linalg.vector_norm)) < NEAR:
            row["exact"] = difference(*steps(row, *doubled(build)))


def compare(row, model, arguments, named, seconds) -> None:
    compiled = compile_(model)

    def ours():
        return compiled(*arguments, **named)

    def eager():
        return model(*arguments, **named)

    with torch.no_grad():
        try:
            theirs = tensors(eager())
        except Exception as error:
            raise EagerFailed(f"{type(error).__name__}: {error}") from error
        start = time.perf_counter()
        results = tensors(ours())
        row["first"] = time.perf_counter() - start
        row["difference"] = difference(results, theirs)
        turns = take_turns({"ours": ours, "eager": eager}, seconds / 2)
    row |= turns.fastest()
    row["ratio"] = turns.median(["eager"], "ours")


def line(row) -> str:
    if row.get("failed"):
        return f"{row['name']:44} n/a: {row['failed']}"
    times = f"ours {row['compile'] / 1e3:5.1f} s  "
    if "ratio" in row:
        times = (f"first {row['first']:5.1f} s  ours {row['compile'] / 1e3:5.1f} s {row['ours'] * 1e3:8.2f} ms"
                 f" {row['eager'] * 1e3:8.2f} ms  ratio {row['ratio']:5.2f}  ")  # fmt: skip
    fallen = f"  calls {', '.join(row['fallback'])}" if row["fallback"] else ""
    wrong = "" if row["right"] else f"  WRONG {row['error'] or ''}"
    beside = f" in {row['mode']}" if "mode" in row else ""
    beside += f", from float64 {row['times']:.2g} of eager's" if "times" in row else ""
    beside += f", in float64 {row['exact']:.0e}" if "exact" in row else ""
    return f"{row['name']:44} {times}difference {row['difference']:.0e}{beside}  graphs {row['graphs']}{wrong}{fallen}"


def alone(name: str, options) -> dict:
    """The row of one architecture, from a process of its own."""
    command = [sys.executable, __file__, "--one", name, "--threads", str(options.threads), "--seconds", str(options.seconds)]
    command += ["--train"] if options.train else []
    try:
        run = limited.run(command, options.limit)
    except limited.TookTooLong as error:
        return {"name": name, "failed": str(error)}
    if run.returncode == 0:
        return json.loads(run.stdout.splitlines()[-1])
    last = (run.stderr.strip().splitlines() or [""])[-1][:150]
    return {"name": name, "failed": f"exit status {run.returncode}: {last}", "crashed": run.returncode < 0}


def one(options) -> int:
    """Measures one architecture and prints its row as JSON."""
    package, _, _ = options.one.rpartition(":")
    build = architectures(package or "transformers")[options.one]
    try:
        row = measure(options.one, build, options.train, options.seconds)
    except Exception as error:  # its package cannot build it, or eager cannot run it
        row = {"name": options.one, "failed": f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"}
    print(json.dumps(row))
    return 0


def summary(rows: list) -> int:
    """Prints what was found; returns the exit status."""
    failed, rows = [row for row in rows if row.get("failed")], [row for row in rows if not row.get("failed")]
    timed = sorted((row for row in rows if "ratio" in row), key=lambda row: row["ratio"])
    for title, found in {
        "slower than eager": [line(row) for row in timed if row["ratio"] < 1],
        "wrong": [line(row) for row in rows if not row["right"]],
        "without a result": [line(row) for row in failed],
        "longest in our compiler": [line(row) for row in sorted(rows, key=lambda row: -row["compile"])[:5]],
    }.items():
        print("\n".join([f"\n{title}: {len(found)}", *found]))
    ratios = [row["ratio"] for row in timed]
    right, native = sum(row["right"] for row in rows), sum(not row["fallback"] for row in rows)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0
    times = f", geometric mean {mean:.2f}, least {min(ratios):.2f}" if ratios else ""
    print(f"\n{len(rows)} architectures, {right} right, {native} without a fallback, {len(failed)} n/a{times}")
    return 0 if right == len(rows) and not any(row.get("crashed") for row in failed) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing per architecture")
    parser.add_argument("--only", default="", help="words of the names, with commas between them")
    parser.add_argument("--package", choices=PACKAGES, default="", help="architectures of this package only")
    parser.add_argument("--train", action="store_true", help="compare a training step")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of processor time per architecture")
    parser.add_argument("--out", default="", help="write the rows into this file, as JSON")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    torch.set_num_threads(options.threads)
    if options.one:
        return one(options)
    names = [name for name in architectures(options.package) if any(word in name for word in options.only.split(","))]
    if not names:
        print(f"none of {', '.join(PACKAGES)} is installed, or no name matches", file=sys.stderr)
        return 2
    rows = []
    for number, name in enumerate(names, 1):
        rows.append(alone(name, options))
        print(f"[{number}/{len(names)}] {line(rows[-1])}", flush=True)
        if options.out:
            with open(options.out, "w") as file:
                json.dump(rows, file, indent=1)
    return summary(rows)


if __name__ == "__main__":
    sys.exit(main())
