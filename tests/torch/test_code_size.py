# tests/torch/test_code_size.py: no kernel grows with its filter, its operands or its chain beyond a bound
import time

import pytest
import torch
import torch.nn.functional as F
from harness import backend_stats, check, compile_fresh
from zoo import ZOO, normal

MOST = 14_000  # LLVM instructions of a kernel behind the passes; LLVM takes about half a second for them on one core


def depthwise(*kernel, stride=1, scale=1.0):
    """A convolution of [batch, 1 + pixels, channels] tokens without their first one, as pooling in video transformers has it."""
    pads = [k // 2 for k in kernel]

    def function(x, w, *size):
        x = x[:, 1:].transpose(1, 2).reshape(x.shape[0], x.shape[2], *size)
        convolve = F.conv3d if len(kernel) == 3 else F.conv2d
        return convolve(x, w, None, stride, pads, groups=w.shape[0]).flatten(2).transpose(1, 2)

    def case(channels, *size):
        pixels = torch.Size(size).numel()
        return lambda x, w: function(x, w, *size), (normal(2, 1 + pixels, channels), scale * normal(channels, 1, *kernel, seed=2))

    return case


def chain(x):
    for k in range(200):
        x = torch.tanh(x) + k if k % 2 else x * 0.5
    return x


def sines(x):
    for k in range(300):
        x = x * 0.9 + 0.01 * k if k % 2 else torch.sin(x)
    return x


def stacked(*x):
    return torch.stack([t + k for k, t in enumerate(x)], -1)


def joined(*x):
    return torch.relu(torch.cat([t * 2 for t in x], 1))


CASES = {
    "depthwise 3 x 3 x 3": depthwise(3, 3, 3)(48, 4, 14, 14),
    "depthwise 7 x 7 x 7": depthwise(7, 7, 7)(32, 8, 14, 14),
    "depthwise 7 x 7 of tokens": depthwise(7, 7)(96, 14, 14),
    "depthwise 11 x 11": depthwise(11, 11)(32, 28, 28),
    "depthwise 31 x 31": depthwise(31, 31, scale=0.03)(32, 32, 32),
    "convolution 11 x 11": (lambda x, w: F.conv2d(x, w, stride=4, padding=2), (normal(1, 3, 63, 63), 0.05 * normal(32, 3, 11, 11, seed=2))),
    "convolution 3 x 7 x 7": (
        lambda x, w: F.conv3d(x, w, stride=2, padding=(1, 3, 3)),
        (normal(1, 3, 4, 32, 32), normal(16, 3, 3, 7, 7, seed=2)),
    ),
    "maxima 13 x 13": (lambda x: F.max_pool2d(x, 13, 1, 6), (normal(1, 32, 20, 20),)),
    "chain of 200": (chain, (normal(64, 256),)),
    "300 steps, half of them sines": (sines, (normal(64, 256),)),
    "stack of 300": (stacked, tuple(normal(5, seed=k) for k in range(300))),
    "concatenation of 150": (joined, tuple(normal(2, 3 + k % 5, seed=k) for k in range(150))),
}  # fmt: skip


def compiled(function, inputs):
    """The executables that the compiled function has, and its results."""
    from hologram_torch import counters

    with counters.capture() as records, torch.no_grad():
        results = compile_fresh(function, dynamic=False)(*inputs)
    return [executable for _, executable, _ in records], results


def longest(executables) -> int:
    return max((length(text) for e in executables for text in e.dump("llvm")), default=0)


def length(llvm: str) -> int:
    return sum(line.startswith("  ") for line in llvm.splitlines())


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_bounded(name):
    function, inputs = CASES[name]
    executables, results = compiled(function, inputs)
    assert 0 < longest(executables) <= MOST
    check(results, function(*inputs), strides=False)


@pytest.mark.parametrize("name", ["resnet", "llama"])
def test_models_compile_within_a_second(name):
    """Of processor time, three for what else the machine does; the kernels' with all caches left aside."""
    executables, _ = compiled(*ZOO[name]()[:2])
    start = time.process_time()
    for executable in executables:
        executable.dump("asm")
    seconds = time.process_time() - start
    stages = backend_stats()["compile_ms"]
    assert seconds + (stages["canon"] + stages["schedule"] + stages["trace"]) / 1e3 < 3
    assert longest(executables) <= MOST


def planned(function, x, dynamic):
    """Results, and the milliseconds of a core that planning took: of the clock's, as large a share as this process had."""
    clock, own = time.perf_counter(), time.process_time()
    results = compile_fresh(function, dynamic=dynamic)(x)
    share = (time.process_time() - own) / (time.perf_counter() - clock)
    return results, backend_stats()["compile_ms"]["schedule"] * min(share, 1)


def test_views_of_symbolic_sizes_are_scheduled_in_proportion():
    """Sixty steps: 1.8 s on a busy core, 20 with what each kernel reads found anew for every pair of kernels."""

    def function(x):
        for _ in range(60):
            rows, columns = x.shape
            x = x.reshape(columns, rows).t().reshape(rows, columns) + 1
            x = torch.cat([x[1:], x[:1]])
        return x

    x = normal(6, 10)
    results, took = planned(function, x, True)
    assert took < 8000
    check(results, function(x))
