#!/usr/bin/env python3
# bench/training.py: whole training steps (forward, backward, AdamW) beside eager and Inductor, and optimizers beside a copy
"""Each model's gradients are checked against float64, then the steps are taken in turns in one process; prints the median ratio to
the best of the others and its quartiles (turns.py), and what a step takes in memory beyond what is held between steps (Linux: the
peak of resident memory, in processes of their own, with --memory). Eager's optimizer is PyTorch's fused one, its fastest. With --whole also
hologram_torch.training_step's; --processor takes processor time of one thread, for busy machines.

    python bench/training.py [--threads 2] [--seconds 2] [--only mlp,gpt] [--inductor] [--memory] [--whole] [--processor]
    python bench/training.py --first  # seconds of the first step, in processes of their own with empty caches
    python bench/training.py --alive --only gpt  # what is held when intermediates take the most, by graph; what eager saves
    python bench/training.py --optimizers  # steps of 20 M parameters, as a share of a copy's bandwidth
"""

import argparse
import collections
import copy
import ctypes
import inspect
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch._dynamo
import torch.nn.functional as F
from torch import nn

import hologram_torch
import models
from hologram_torch import counters
import zoo  # the path to which models adds
from turns import take_turns


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.LSTM(64, 256, batch_first=True), nn.Linear(256, 10)

    def forward(self, x):
        return self.last(self.layer(x)[0][:, -1])


class Encoder(nn.Module):
    """Two layers of width 256, with dropout as PyTorch has it by default."""

    def __init__(self, dropout=0.1):
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=dropout, batch_first=True, activation="gelu")
        self.layers, self.last = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(256, 10)

    def forward(self, x):
        return self.last(self.layers(x).mean(1))


class Sentences(nn.Module):
    def __init__(self):
        super().__init__()
        self.model, self.last = models.minilm(), nn.Linear(384, 10)

    def forward(self, ids):
        return self.last(self.model(ids, torch.ones_like(ids)).mean(1))


def tokens(*shape, vocabulary):
    return models.tokens(*shape, vocabulary=vocabulary)


# name → (module, its input, number of classes of each row of results)
CASES = {
    "mlp": lambda: (models.MLP(784, 512, 256, 10), torch.randn(64, 784), 10),
    "encoder": lambda: (Encoder(0.0), torch.randn(8, 64, 256), 10),
    "encoder-dropout": lambda: (Encoder(), torch.randn(8, 64, 256), 10),
    "gpt": lambda: (models.Gpt2(vocabulary=96, width=128, heads=4, layers=4, length=64), tokens(16, 64, vocabulary=96), 96),
    "resnet18": lambda: (models.ResNet(), torch.randn(8, 3, 224, 224), None),
    "mobilenet": lambda: (models.MobileNet(), torch.randn(8, 3, 224, 224), None),
    "lstm": lambda: (Lstm(), torch.randn(16, 64, 64), 10),
    "vit": lambda: (zoo.ViT(size=64, patch=8, width=192, heads=3, layers=4), torch.randn(16, 3, 64, 64), 10),
    "minilm": lambda: (Sentences(), tokens(8, 32, vocabulary=30000), 10),
}


def loss_of(model, classes):
    def loss(x):
        y = model(x)
        y = y.flatten(0, -2)
        return F.cross_entropy(y, torch.arange(len(y)) % y.shape[-1])

    return loss


def stepper(model, loss, step, optimizer):
    def call(x):
        optimizer.zero_grad()
        value = loss(x)
        value.backward()
        step()
        return value

    return call


def made(peer, model, classes):
    """One training step of a copy of the model as `peer` runs it."""
    model = copy.deepcopy(model)
    loss = loss_of(model, classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=peer == "eager")
    if peer == "eager":
        return model, stepper(model, loss, optimizer.step, optimizer)
    if peer == "whole":
        return model, hologram_torch.training_step(loss, optimizer, dynamic=False)
    compiled = (torch.compile(f, backend=peer, dynamic=False) for f in (loss, optimizer.step))
    return model, stepper(model, next(compiled), next(compiled), optimizer)


def errors(model, x, classes) -> tuple:
    """The largest error of a gradient of the first step, ours and eager's, relative to the largest element of all."""
    exact = copy.deepcopy(model).double()
    loss_of(exact, classes)(x.double() if x.is_floating_point() else x).backward()
    most = max(p.grad.abs().max() for p in exact.parameters() if p.grad is not None)

    def error(backend):
        found = copy.deepcopy(model)
        torch.compile(loss_of(found, classes), backend=backend, dynamic=False)(x).backward()
        pairs = [(p.grad, q.grad) for p, q in zip(found.parameters(), exact.parameters()) if q.grad is not None]
        return max(((p - q).abs().max() / most).item() for p, q in pairs)

    return error("hologram"), error("eager")


def run(name, options) -> float:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x, classes = CASES[name]()
    model.train()
    if "dropout" not in name and name != "minilm":
        error, eagers = errors(model, x, classes)  # where ReLU decides by a rounding, eager is as far from float64
        assert error < max(1e-3, 3 * eagers), f"{name}: error {error:.1e} of a gradient, eager's {eagers:.1e}"
    peers = ["eager", *(["inductor"] if options.inductor else [])]
    ours = ["hologram", *(["whole"] if options.whole else [])]
    steps = {peer: made(peer, model, classes)[1] for peer in [*peers, *ours]}
    clock = time.thread_time if options.processor else time.perf_counter
    turns = take_turns({peer: (lambda step=step: step(x)) for peer, step in steps.items()}, options.seconds, clock)
    times = "".join(f"{1e3 * t:10.2f}" for t in turns.fastest().values())
    print(f"{name:16}{times}   " + "   ".join(turns.ratio(peers, peer) for peer in ours), flush=True)
    return turns.median(peers, "hologram")


def peak(name, peer) -> None:
    """Prints how many MiB a step takes beyond what is held between steps."""
    torch.manual_seed(0)
    model, x, classes = CASES[name]()
    step = made(peer, model.train(), classes)[1]
    for _ in range(3):
        step(x)
    hologram_torch.release_memory()
    ctypes.CDLL(None).malloc_trim(0)  # what the C library keeps would hide the peak
    held = _status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    step(x)
    print((_status("VmHWM") - held) / 1024)


def _status(word) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(word))


def memory(names, ours) -> None:
    print(f"{'MiB of a step':16}{'eager':>10}" + "".join(f"{peer:>10}" for peer in ours))
    for name in names:
        shares = []
        for peer in ("eager", *ours):
            command = [sys.executable, __file__, "--peak", name, peer]
            shares.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0]))
        print(f"{name:16}" + "".join(f"{s:10.1f}" for s in shares) + "".join(f"   {s / shares[0]:.2f}" for s in shares[1:]), flush=True)


def first(options) -> None:
    """Prints what a process's first step takes: with a backend that compiles nothing, with ours and with Inductor."""
    peers = ["aot_eager", "hologram", *(["inductor"] if options.inductor else [])]
    print(f"{'s, first step':16}" + "".join(f"{peer:>11}" for peer in peers) + "   beyond aot_eager")
    for name in options.only.split(","):
        times = {}
        for peer in peers:
            with tempfile.TemporaryDirectory() as empty:
                command = [sys.executable, __file__, "--begin", name, peer, "--threads", str(options.threads)]
                caches = {"HOLOGRAM_CACHE_DIR": empty, "TORCHINDUCTOR_CACHE_DIR": empty}
                done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | caches)
                times[peer] = float(done.stdout.split()[-1])
        print(f"{name:16}" + "".join(f"{t:11.2f}" for t in times.values()) + f"{times['hologram'] - times['aot_eager']:13.2f}", flush=True)


def begin(name, peer) -> None:
    torch.manual_seed(0)
    model, x, classes = CASES[name]()
    step = made(peer, model.train(), classes)[1]
    start = time.perf_counter()
    step(x)
    print(time.perf_counter() - start)


# --- what is held
def alive(name) -> None:
    """Prints, for each graph of a step, what it takes and gives and its intermediates at their peak, beside the tensors eager saves."""
    model, x, classes = CASES[name]()
    saved = {}

    def pack(t):
        saved[t.untyped_storage().data_ptr()] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss_of(model.train(), classes)(x)
    for p in model.parameters():
        saved.pop(p.untyped_storage().data_ptr(), None)
    print(f"{name}: eager saves {sum(t.untyped_storage().nbytes() for t in saved.values()) / 2**20:.1f} MiB")
    sizes = collections.Counter((t.untyped_storage().nbytes(), tuple(t.shape)) for t in saved.values())
    for (nbytes, shape), count in sorted(sizes.items(), reverse=True)[:8]:
        print(f"  {nbytes / 2**20:6.2f} MiB {list(shape)} ×{count}")
    for peer in ("hologram", "whole"):
        torch._dynamo.reset()
        with counters.capture() as records:
            step = made(peer, model, classes)[1]
            for _ in range(3):
                step(x)
        for graph, executable, _ in records:
            plan = executable.describe()
            held = collections.Counter()
            for slot in plan["slots"]:
                held[slot["kind"]] += int(slot["bytes"])
            shares = ", ".join(f"{kind} {held[kind] / 2**20:.1f}" for kind in ("input", "cached", "output"))
            print(f"{name}, {peer}, {graph}: MiB {shares}, arena {int(plan['arena_bytes']) / 2**20:.1f}")
            print("\n".join(inspect.getmodule(hologram_torch.explain).alive.lines(plan, 24)))


# --- optimizers
TRAFFIC = {  # how often a step reads or writes a tensor at the least, and what makes it
    "SGD, momentum": (5, lambda p, **o: torch.optim.SGD(p, lr=1e-3, momentum=0.9, **o)),
    "SGD, Nesterov": (5, lambda p, **o: torch.optim.SGD(p, lr=1e-3, momentum=0.9, nesterov=True, **o)),
    "Adam": (7, lambda p, **o: torch.optim.Adam(p, lr=1e-3, **o)),
    "AdamW": (7, lambda p, **o: torch.optim.AdamW(p, lr=1e-3, **o)),
    "Adagrad": (5, lambda p, **o: torch.optim.Adagrad(p, lr=1e-3, **o)),
    "RMSprop": (5, lambda p, **o: torch.optim.RMSprop(p, lr=1e-3, **o)),
    "Adafactor": (7, lambda p, **o: (hologram_torch.optim.Adafactor if not o else torch.optim.Adafactor)(p, lr=1e-3)),
    "Lion": (5, lambda p, **o: hologram_torch.optim.Lion(p, lr=1e-4)),
}
SHAPES = [(1024, 1024)] * 16 + [(2048, 1024)] * 2 + [(1024,)] * 20


def optimizers(options) -> None:
    def parameters():
        found = [nn.Parameter(torch.randn(shape)) for shape in SHAPES]
        for p in found:
            p.grad = torch.randn_like(p)
        return found

    count = sum(int(np.prod(shape)) for shape in SHAPES)
    source, target = torch.randn(count), torch.empty(count)
    past_caches = torch.compile(lambda: target.copy_(source), backend="hologram")
    print(f"{'optimizer':16}{'copies':>14}{'foreach':>9}{'hologram':>9}   ms; share of the faster copy's bandwidth, quartiles")
    for name, (traffic, make) in TRAFFIC.items():
        torch._dynamo.reset()
        eager, ours = make(parameters(), foreach=True), make(parameters())
        calls = {"copy": lambda: target.copy_(source), "past caches": past_caches, "foreach": eager.step,
                 "hologram": torch.compile(ours.step, backend="hologram")}  # fmt: skip
        turns = take_turns(calls, options.seconds)
        copies = np.minimum(turns["copy"], turns["past caches"])
        low, middle, high = np.percentile(copies / 2 * traffic / np.array(turns["hologram"]), (25, 50, 75))
        times = "".join(f"{1e3 * t:8.2f}" for t in turns.fastest().values())
        print(f"{name:16}{times}  {middle:.2f} ({low:.2f}…{high:.2f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each peer of a case")
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--alive", action="store_true")
    parser.add_argument("--whole", action="store_true", help="also steps that are one graph")
    parser.add_argument("--processor", action="store_true", help="with --threads 1")
    parser.add_argument("--optimizers", action="store_true")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--begin", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak:
        return peak(*options.peak)
    if options.begin:
        return begin(*options.begin)
    if options.first:
        return first(options)
    if options.optimizers:
        return optimizers(options)
    names = options.only.split(",")
    if options.alive:
        return list(map(alive, names))
    if options.memory:
        return memory(names, ["hologram", *(["whole"] if options.whole else [])])
    others = (f"{'inductor':>10}" if options.inductor else "") + f"{'hologram':>10}" + (f"{'whole':>10}" if options.whole else "")
    print(f"{'ms of a step':16}{'eager':>10}{others}   ratio")
    ratios = [run(name, options) for name in names]
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
