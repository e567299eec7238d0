#!/usr/bin/env python3
# bench/eager_device.py: eager programs on device="hologram", whose operators wait or run one by one, beside those on "cpu"
"""Training steps and chains of operators, the three ways in turn in one process. Values are compared before times are taken.

    python bench/eager_device.py [chain_1024 encoder ...] [--threads 1] [--rounds 7]

One thread: processor time, so that a busy machine spoils little; more: time by the clock."""

import argparse
import copy
import math
import time

import torch
import torch.nn.functional as F

import hologram_torch

WAYS = ("cpu", "one by one", "waiting")


def step(net, x, labels):
    """What gives a training step on a device."""

    def on(device):
        mine, there, wanted = copy.deepcopy(net).to(device), x.to(device), labels.to(device)
        optimizer = torch.optim.AdamW(mine.parameters(), lr=1e-3)

        def run():
            loss = F.cross_entropy(mine(there), wanted)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.item()

        return run

    return on


def mlp(batch, *sizes):
    layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    return step(torch.nn.Sequential(*layers[:-1]), torch.randn(batch, sizes[0]), torch.randint(sizes[-1], (batch,)))


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.layers(x)).mean(1)


def chain(n):
    x, y = torch.randn(n, n), torch.randn(n, n)

    def on(device):
        there, other = x.to(device), y.to(device)

        def run():
            z = there
            for _ in range(4):
                z = (z * other + 1.5) * 0.5 - other * z
            return z.relu().sum().item()

        return run

    return on


CASES = {  # name -> (what makes it, calls a round)
    "mlp_784": (lambda: mlp(64, 784, 512, 256, 10), 10),
    "mlp_64": (lambda: mlp(16, 64, 32, 10), 30),
    "encoder": (lambda: step(Encoder(), torch.randn(8, 64, 128), torch.randint(10, (8,))), 4),
    "chain_16": (lambda: chain(16), 200),
    "chain_256": (lambda: chain(256), 40),
    "chain_1024": (lambda: chain(1024), 4),
}


def measured(make, calls, rounds, clock):
    """→ {way: seconds a call}"""
    torch.manual_seed(0)
    case = make()
    runs = {way: case("cpu" if way == "cpu" else "hologram") for way in WAYS}
    times = {way: [] for way in WAYS}
    for turn in range(rounds + 1):
        values = []
        for way, run in runs.items():
            with hologram_torch.device.lazy(way == "waiting"):
                start = clock()
                for _ in range(calls if turn else 6):
                    value = run()
                times[way].append((clock() - start) / calls)
            values.append(value)
        assert all(math.isclose(v, values[0], rel_tol=1e-2, abs_tol=1e-4) for v in values), values
    return {way: min(found[1:]) for way, found in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    hologram_torch.device.use()
    clock = time.process_time if options.threads == 1 else time.perf_counter
    print(f"{'':12}" + "".join(f"{way:>14}" for way in WAYS) + "   in µs; waiting beside one by one, beside cpu")
    for name in options.cases:
        t = measured(*CASES[name], options.rounds, clock)
        gains = f"{t['one by one'] / t['waiting']:12.2f} ×{t['cpu'] / t['waiting']:8.2f} ×"
        print(f"{name:12}" + "".join(f"{1e6 * t[way]:14.0f}" for way in WAYS) + gains, flush=True)


if __name__ == "__main__":
    main()
