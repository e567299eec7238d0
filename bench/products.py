#!/usr/bin/env python3
# bench/products.py: float32 products and attention against PyTorch's own, in one process
"""Each case is checked against float64, then both sides are timed in turns; prints the ratio of the best times.

    python bench/products.py [--threads 2] [--seconds 0.5]

The instruction set is printed first; on a processor with AMX, products of float32, bfloat16 and bytes are its tiles', elsewhere
it says "no AMX on this machine". "packed" is a weight that stays (torch.nn.Linear), "given" a right operand that is new in each call. Both go through
torch.compile; "batch" calls the compiled graph itself, since Dynamo's checks take longer than a small product, and
compares it with torch.bmm.
"""

import argparse
import os
import sys
import time
from functools import partial

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import scaled_dot_product_attention

import hologram_torch
from hologram import _core
from hologram_torch.compiler import compile_graph
from hologram_torch.options import Options

SQUARES = (64, 128, 256, 512, 1024, 2048)
SHAPES = [(n, n, n) for n in SQUARES] + [
    (1024, 1536, 384), (1024, 384, 1536), (1024, 384, 384), (128, 3072, 768),
    (16, 384, 384), (4, 384, 384), (1, 3072, 768),
]  # fmt: skip
BATCHES = [(b, n) for n in (4, 8, 16, 32, 48, 64) for b in (1, 64)]
ATTENTION = ((8, 12, 128, 128, 32), (1, 12, 1024, 1024, 64), (1, 12, 1, 1024, 64))


def linear(m: int, n: int, k: int):
    layer = torch.nn.Linear(k, n, bias=False)
    exact = layer.weight.detach().double().t()
    return layer, (torch.randn(m, k),), lambda x: x.double() @ exact


def narrow_linear(m: int, n: int, k: int):
    layer = torch.nn.Linear(k, n, bias=False, dtype=torch.bfloat16)
    exact = layer.weight.detach().double().t()
    return layer, (torch.randn(m, k, dtype=torch.bfloat16),), lambda x: x.double() @ exact


def narrow_given(m: int, n: int, k: int):
    a, b = torch.randn(m, k, dtype=torch.bfloat16), torch.randn(k, n, dtype=torch.bfloat16)
    return torch.mm, (a, b), lambda a, b: a.double() @ b.double()


def byte_linear(m: int, n: int, k: int):
    layer = torch.nn.Module()
    layer.register_buffer("weight", torch.randint(-128, 128, (k, n), dtype=torch.int8))
    layer.forward = lambda x: torch._int_mm(x, layer.weight)
    return layer, (torch.randint(-128, 128, (m, k), dtype=torch.int8),), lambda x: x.double() @ layer.weight.double()


def byte_given(m: int, n: int, k: int):
    a, b = torch.randint(-128, 128, (m, k), dtype=torch.int8), torch.randint(-128, 128, (k, n), dtype=torch.int8)
    return torch._int_mm, (a, b), lambda a, b: a.double() @ b.double()


def given(m: int, n: int, k: int):
    return torch.mm, (torch.randn(m, k), torch.randn(k, n)), lambda a, b: a.double() @ b.double()


def batch(count: int, n: int, transposed: bool):
    a, b = torch.randn(2, count, n, n).unbind()
    return torch.bmm, (a, b.mT if transposed else b), lambda x, y: x.double() @ y.double()


def attention(batch: int, heads: int, queries: int, keys: int, depth: int):
    q = torch.randn(batch, heads, queries, depth)
    k, v = torch.randn(2, batch, heads, keys, depth).unbind()
    exact = lambda *qkv: scaled_dot_product_attention(*(x.double() for x in qkv))  # noqa: E731
    return scaled_dot_product_attention, (q, k, v), exact


def best_times(calls, seconds: float) -> list[float]:
    """Smallest time of each call, in turns of about a millisecond."""
    repeats = []
    for call in calls:
        start = time.perf_counter()
        call()
        repeats.append(max(1, int(1e-3 / (time.perf_counter() - start))))
    best = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            for _ in range(repeats[i]):
                call()
            best[i] = min(best[i], (time.perf_counter() - start) / repeats[i])
    return best


def direct(function, inputs):
    """The compiled graph without torch.compile around it."""
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    call = compile_graph(graph, "inference", Options.make(None, None))
    return lambda *arguments: call(list(arguments))[0]


@torch.no_grad()
def measure(name: str, case, flops: float, seconds: float, bare: bool = False) -> bool:
    function, inputs, exact = case
    torch._dynamo.reset()
    if bare:
        compiled = direct(function, inputs)
    else:
        compiled = torch.compile(function, backend=hologram_torch.hologram, dynamic=False)
    reference = exact(*inputs)
    error = (compiled(*inputs).double() - reference).abs().max() / reference.abs().max()
    if not error < (1e-2 if inputs[0].dtype == torch.bfloat16 else 1e-5):
        print(f"{name:36} wrong: error {error:.1e}")
        return False
    ours, theirs = best_times((lambda: compiled(*inputs), lambda: function(*inputs)), seconds)
    print(
        f"{name:36} {ours * 1e6:10.1f} us {theirs * 1e6:10.1f} us "
        f"{flops / ours / 1e9:7.1f} GF/s  ratio {theirs / ours:5.2f}"
    )
    return True


def cases():
    """Name, what builds it, floating-point operations, whether to call the compiled graph itself."""
    for kind, build in (("packed", linear), ("given", given)):
        for m, n, k in SHAPES:
            yield f"{kind} {m} x {n} x {k}", partial(build, m, n, k), 2.0 * m * n * k, False
    narrow = {"bfloat16 packed": narrow_linear, "bfloat16 given": narrow_given,
              "bytes packed": byte_linear, "bytes given": byte_given}  # fmt: skip
    for kind, build in narrow.items():
        for n in (256, 512, 1024, 2048):
            yield f"{kind} {n} x {n} x {n}", partial(build, n, n, n), 2.0 * n**3, False
    for transposed in (False, True):
        for b, n in BATCHES:
            name = f"batch {b} x {n} x {n} x {n}" + " transposed" * transposed
            yield name, partial(batch, b, n, transposed), 2.0 * b * n**3, True
    for b, h, m, n, d in ATTENTION:
        name = f"attention {b} x {h} x {m} x {n} x {d}"
        yield name, partial(attention, b, h, m, n, d), 4.0 * b * h * m * n * d, False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=0.5, help="per case")
    parser.add_argument("--only", default="", help="a word of the cases' names")
    options = parser.parse_args()
    os.environ["HOLOGRAM_STRICT"] = "1"  # what cannot be compiled is an error here, not PyTorch's own time
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    isa = _core.host_cpu()["isa"]
    print(f"instruction set {isa}" + ("" if isa == "amx" else ": no AMX on this machine, or not asked for"))
    print(f"{options.threads} threads{'':27} {'hologram':>13} {'torch':>13}")
    right = True
    for name, build, flops, bare in cases():
        if options.only in name:
            right &= measure(name, build(), flops, options.seconds, bare)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
