#!/usr/bin/env python3
# bench/products.py: products and attention against PyTorch's own, in one process
"""Each case is checked against float64, then both sides are timed in turns; prints the median ratio and its quartiles
(turns.py), and for rows that wait for memory what they read of it each second beside what a sum of 256 MB reads.

    python bench/products.py [--threads 2] [--seconds 0.5]

The instruction set is printed first; on a processor with AMX, products of float32, bfloat16 and bytes are its tiles', elsewhere
it says "no AMX on this machine". "packed" is a weight that stays (torch.nn.Linear), "given" a right operand that is new
in each call. Both go through torch.compile, those of at most 512³ multiplications through hologram_torch.freeze, which
spares Dynamo's checks; "medium" is the float32 precision of that name. "unsigned bytes" times signed ones. "int8" and
"int4" are weights of so many bits, their scales in groups of 128, times one row, beside PyTorch's kernel for them.
"batch" calls the compiled graph itself, since Dynamo's checks take longer than a small product, and compares it with
torch.bmm.
"""

import argparse
import itertools
import math
import os
import sys
from functools import partial

import torch
import torch._functorch.config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import scaled_dot_product_attention

import hologram_torch
from hologram import _core
from hologram_torch.compiler import compile_graph
from hologram_torch.options import Options
from turns import Turns, take_turns

SQUARES = (64, 128, 256, 512, 1024, 2048, 4096)
SHAPES = [(n, n, n) for n in SQUARES] + [
    (1024, 1536, 384), (1024, 384, 1536), (1024, 384, 384), (128, 3072, 768),
    (16, 384, 384), (4, 384, 384), (1, 3072, 768),
]  # fmt: skip
BATCHES = [(b, n) for n in (4, 8, 16, 32, 48, 64) for b in (1, 64)]
# Batch, heads, key heads, queries, keys, depth. One query is a step of decoding.
ATTENTION = ((8, 12, 12, 128, 128, 32), (1, 12, 12, 1024, 1024, 64), (1, 8, 8, 512, 512, 128), (2, 8, 8, 256, 256, 80))
DECODING = ((1, 12, 12, 1, 1024, 64), (1, 32, 8, 1, 2048, 128), (1, 8, 1, 1, 4096, 128), (4, 16, 4, 1, 1024, 64))


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


def random_bytes(m: int, n: int, dtype=torch.int8):
    return torch.randint(-128, 128, (m, n), dtype=torch.int8).view(dtype)


def byte_linear(m: int, n: int, k: int, dtype=torch.int8):
    layer = torch.nn.Module()
    layer.register_buffer("weight", random_bytes(k, n))
    layer.forward = lambda x: torch._int_mm(x, layer.weight)
    return layer, (random_bytes(m, k, dtype),), lambda x: x.double() @ layer.weight.double()


def byte_given(m: int, n: int, k: int, dtype=torch.int8):
    a, b = random_bytes(m, k, dtype), random_bytes(k, n)
    return torch._int_mm, (a, b), lambda a, b: a.double() @ b.double()


def given(m: int, n: int, k: int):
    return torch.mm, (torch.randn(m, k), torch.randn(k, n)), lambda a, b: a.double() @ b.double()


def batch(count: int, n: int, transposed: bool):
    a, b = torch.randn(2, count, n, n).unbind()
    return torch.bmm, (a, b.mT if transposed else b), lambda x, y: x.double() @ y.double()


def hidden(kind: str, batch: int, queries: int, keys: int, dtype):
    """What a kind of attention passes as its mask."""
    if kind == "padding":  # the last eighth of the keys
        return (torch.arange(keys) < keys - keys // 8).expand(batch, 1, 1, keys)
    if kind == "bias":
        return torch.randn(1, 1, queries, keys).to(dtype)
    return (torch.rand(queries, keys) < 0.7) | (torch.arange(keys) == 0) if kind == "mask" else None


def attention(kind: str, dtype, batch: int, heads: int, kv_heads: int, queries: int, keys: int, depth: int):
    q = torch.randn(batch, heads, queries, depth).to(dtype)
    k, v = torch.randn(2, batch, kv_heads, keys, depth).to(dtype).unbind()
    mask = hidden(kind, batch, queries, keys, dtype)
    options = {"is_causal": kind == "causal", "enable_gqa": heads != kv_heads}

    def exact(q, k, v, mask):
        mask = mask.double() if kind == "bias" else mask
        return scaled_dot_product_attention(q.double(), k.double(), v.double(), mask, **options)

    return partial(scaled_dot_product_attention, **options), (q, k, v, mask), exact


def attention_gradients(kind: str, dtype, *sizes: int):
    """The gradients alone: the forward pass runs once, outside what is timed."""
    function, (q, k, v, mask), exact = attention(kind, dtype, *sizes)
    inputs = [t.requires_grad_() for t in (q, k, v)]
    weight = torch.randn(q.shape).to(dtype)

    def gradients(call, dtype=dtype):
        tensors = inputs if dtype == q.dtype else [t.detach().to(dtype).requires_grad_() for t in inputs]
        with torch.enable_grad():
            out = call(*tensors, mask)
        return lambda: torch.autograd.grad(out, tensors, weight.to(out.dtype), retain_graph=True)

    return function, gradients, lambda: gradients(exact, torch.float64)()


def medium_linear(m: int, n: int, k: int):
    torch.set_float32_matmul_precision("medium")
    return linear(m, n, k)


GROUP = 128


class Byte(torch.nn.Module):
    def __init__(self, n: int, k: int):
        super().__init__()
        self.register_buffer("q", torch.randint(-128, 128, (n, k), dtype=torch.int8))
        self.register_buffer("s", torch.rand(n, dtype=torch.bfloat16) / 100)

    def forward(self, x):
        return torch._weight_int8pack_mm(x, self.q, self.s)


class Nibble(torch.nn.Module):
    def __init__(self, n: int, k: int):
        super().__init__()
        numbers = torch.randint(0, 16, (n, k), dtype=torch.int32)
        self.register_buffer("q", torch._convert_weight_to_int4pack_for_cpu(numbers, 1))
        self.register_buffer("s", torch.rand(k // GROUP, n, 2, dtype=torch.bfloat16) / 10)
        wide = self.s.float().repeat_interleave(GROUP, 0)
        self.exact = (numbers.t().float() - 8) * wide[..., 0] + wide[..., 1]

    def forward(self, x):
        return torch._weight_int4pack_mm_for_cpu(x, self.q, GROUP, self.s)


def byte_weights(n: int, k: int):
    layer = Byte(n, k)
    return layer, (torch.randn(1, k, dtype=torch.bfloat16),), lambda x: x.double() @ layer.q.double().t() * layer.s.double()


def nibble_weights(n: int, k: int):
    layer = Nibble(n, k)
    return layer, (torch.randn(1, k, dtype=torch.bfloat16),), lambda x: (x.float() @ layer.exact).double()


def read_bandwidth() -> float:
    """Bytes a second that a sum reads."""
    x = torch.zeros(1 << 26)
    return x.numel() * 4 / min(take_turns({"sum": x.sum}, 0.5)["sum"])


def by_compile(function, inputs):
    return torch.compile(function, backend=hologram_torch.hologram, dynamic=False)


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def by_freeze(function, inputs):
    """A frozen module: without Dynamo's 7 µs of a call."""
    return hologram_torch.freeze(function if isinstance(function, torch.nn.Module) else Call(function), inputs)


def by_graph(function, inputs):
    """The compiled graph itself."""
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    call = compile_graph(graph, "inference", Options.make(None, None))
    return lambda *arguments: call(list(arguments))[0]


@torch.no_grad()
def measure(name: str, case, flops: float, seconds: float, compiler=by_compile, reads: float = 0, limit: float = 0) -> bool:
    function, inputs, exact = case
    torch._dynamo.reset()
    compiled = compiler(function, inputs)
    reference = exact(*inputs)
    error = (compiled(*inputs).double() - reference).abs().max() / reference.abs().max()
    brief = torch.get_float32_matmul_precision() != "highest"
    if not error < (1e-2 if inputs[0].dtype == torch.bfloat16 or brief else 1e-5):
        print(f"{name:36} wrong: error {error:.1e}")
        return False
    turns = take_turns({"ours": lambda: compiled(*inputs), "theirs": lambda: function(*inputs)}, seconds)
    memory = f"  {reads / min(turns['ours']) / 1e9:5.1f} of {limit / 1e9:5.1f} GB/s" if reads else ""
    report(name, turns, flops, memory)
    return True


@torch.no_grad()
def measure_gradients(name: str, case, flops: float, seconds: float) -> bool:
    function, gradients, exact = case
    torch._dynamo.reset()
    ours = gradients(torch.compile(function, backend=hologram_torch.hologram, dynamic=False))
    theirs, reference = gradients(function), exact()
    with torch.enable_grad():
        got = ours()
    error = max((x.double() - y).abs().max() / y.abs().max() for x, y in zip(got, reference, strict=True))
    if not error < (2e-2 if got[0].dtype == torch.bfloat16 else 2e-5):
        print(f"{name:44} wrong: error {error:.1e}")
        return False
    report(name, take_turns({"ours": ours, "theirs": theirs}, seconds), flops)
    return True


def report(name: str, turns: Turns, flops: float, memory: str = ""):
    ours, theirs = turns.fastest().values()
    print(
        f"{name:44} {ours * 1e6:10.1f} us {theirs * 1e6:10.1f} us {flops / ours / 1e9:7.1f} GF/s  "
        f"ratio {turns.ratio(['theirs'], 'ours')}{memory}",
        flush=True,
    )


def attention_cases():
    """Name, what builds it, floating-point operations, whether it is a gradient's."""
    types = (("", torch.float32), ("bfloat16 ", torch.bfloat16))
    for (word, dtype), sizes in itertools.product(types, ATTENTION + DECODING):
        b, h, _, m, n, d = sizes
        for kind in ("plain", "causal", "padding", "mask", "bias"):
            if m == 1 and kind not in ("plain", "padding"):
                continue
            name = f"{word}attention {'' if kind == 'plain' else kind + ' '}{' x '.join(map(str, sizes))}"
            flops = 4.0 * b * h * m * n * d / (2 if kind == "causal" else 1)
            yield name, partial(attention, kind, dtype, *sizes), flops, False
            if m > 1 and kind in ("plain", "causal", "padding"):
                yield f"{name} gradients", partial(attention_gradients, kind, dtype, *sizes), 2.5 * flops, True


def cases():
    """Name, what builds it, floating-point operations, what compiles it (small ones without Dynamo), bytes read where memory
    is the limit."""

    def compiler(*shape):
        return by_freeze if math.prod(shape) <= 512**3 else by_compile

    for kind, build in (("packed", linear), ("given", given)):
        for m, n, k in SHAPES:
            yield f"{kind} {m} x {n} x {k}", partial(build, m, n, k), 2.0 * m * n * k, compiler(m, n, k)
    narrow = {"bfloat16 packed": narrow_linear, "bfloat16 given": narrow_given,
              "bytes packed": byte_linear, "bytes given": byte_given,
              "unsigned bytes packed": partial(byte_linear, dtype=torch.uint8),
              "unsigned bytes given": partial(byte_given, dtype=torch.uint8)}  # fmt: skip
    for kind, build in narrow.items():
        for n in (256, 512, 1024, 2048, *([4096] if build in (narrow_linear, narrow_given) else [])):
            yield f"{kind} {n} x {n} x {n}", partial(build, n, n, n), 2.0 * n**3, compiler(n, n, n)
    for transposed in (False, True):
        for b, n in BATCHES:
            name = f"batch {b} x {n} x {n} x {n}" + " transposed" * transposed
            yield name, partial(batch, b, n, transposed), 2.0 * b * n**3, by_graph
    for m, n, k in [(n, n, n) for n in (256, 512, 1024, 2048)] + [(1024, 1536, 384), (1, 4096, 4096)]:
        yield f"medium {m} x {n} x {k}", partial(medium_linear, m, n, k), 2.0 * m * n * k, by_compile
    n, k = 14336, 8192
    yield f"vector packed {n} x {k}", partial(linear, 1, n, k), 2.0 * n * k, by_compile, 4.0 * n * k
    yield f"vector given {n} x {k}", partial(given, 1, n, k), 2.0 * n * k, by_compile, 4.0 * n * k
    yield f"int8 {n} x {k}", partial(byte_weights, n, k), 2.0 * n * k, by_compile, 1.0 * n * k
    yield f"int4 {n} x {k}", partial(nibble_weights, n, k), 2.0 * n * k, by_compile, n * k / 2 + 4.0 * n * k / GROUP


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=0.5, help="per case")
    parser.add_argument("--only", default="", help="a word of the cases' names")
    options = parser.parse_args()
    os.environ["HOLOGRAM_STRICT"] = "1"  # what cannot be compiled is an error here, not PyTorch's own time
    torch.set_num_threads(options.threads)
    torch._functorch.config.donated_buffer = False  # gradients are taken of one forward pass many times
    torch.manual_seed(0)
    isa = _core.host_cpu()["isa"]
    print(f"instruction set {isa}" + ("" if isa == "amx" else ": no AMX on this machine, or not asked for"))
    print(f"{options.threads} threads{'':27} {'hologram':>13} {'torch':>13}")
    right = True
    limit = read_bandwidth()
    for name, build, flops, compiler, *reads in cases():
        if options.only in name:
            torch.set_float32_matmul_precision("highest")
            right &= measure(name, build(), flops, options.seconds, compiler, *reads, limit=limit)
    torch.set_float32_matmul_precision("highest")
    for name, build, flops, gradient in attention_cases():
        if options.only in name:
            right &= (measure_gradients if gradient else measure)(name, build(), flops, options.seconds)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
