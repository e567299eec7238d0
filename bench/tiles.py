# bench/tiles.py: multiply-adds, tiles, and tiles with and without prefetching, in one process, in turns
"""The table by which docs/processors.md and src/backend/cpu/processor.cpp choose instructions on AMX: run this on such a
machine (an hour with the defaults), at 2 and at 16 threads. bench/bars.py runs it beside other runtimes.

    python bench/tiles.py --threads 2
    python bench/tiles.py --only bfloat16 --seconds 1 --out tiles.json
    python bench/tiles.py --minutes 9 --most 2048 --seconds 0.3 --out tiles.json    # what fits; the file grows with each case

Every case is compiled once for each variant, in a runtime of its own, with HOLOGRAM_CPU_ISA, HOLOGRAM_CPU_TERMS,
HOLOGRAM_CPU_ATTENTION and HOLOGRAM_CPU_TILE_PREFETCH as the variant says; "default" is what runs unasked. Values are checked
against double precision, then all variants and PyTorch take turns. The columns are times of a call, and ratios (medians and
quartiles over the turns): fma over tiles is the gain that decides about float32, torch over tiles about attention, plain over
tiles what prefetching does. On machines without AMX only "fma" and PyTorch run.

Products, attention and convolutions on tiles are then compared with a loop of nothing but tile products (bare_tiles.py): shares
of a call's time."""

import argparse
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import bare_tiles
import numpy as np
import products
import torch
from turns import take_turns

TILES = {"HOLOGRAM_CPU_ISA": "amx", "HOLOGRAM_CPU_TERMS": "model", "HOLOGRAM_CPU_ATTENTION": "tiles"}
VARIANTS = {
    "tiles": TILES,
    "plain": {**TILES, "HOLOGRAM_CPU_TILE_PREFETCH": "0"},
    "default": {"HOLOGRAM_CPU_ISA": "amx"},
    "fma": {"HOLOGRAM_CPU_ISA": "avx512"},
}


@contextlib.contextmanager
def variant(settings: dict):
    """The native runtime, and what Python asks of the processor, as the environment now says."""
    from hologram_torch import precision, runtimes

    caches = (runtimes._make, precision._treatments, precision._brief_attention_is_pytorchs)
    saved = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    for cache in caches:
        cache.cache_clear()
    try:
        yield
    finally:
        for name, value in saved.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        for cache in caches:
            cache.cache_clear()


def possible(names) -> dict:
    """Those of the variants whose level this machine runs."""
    from hologram import _core

    found = {}
    for name in names:
        with contextlib.suppress(RuntimeError), variant(VARIANTS[name]):
            _core.host_cpu()
            found[name] = VARIANTS[name]
    return found


def model(name: str, dtype=torch.float32):
    """A model of bench/cases.py, with nothing of its own to check but its result in double precision."""
    import copy

    import cases

    module, inputs = cases.find(name).build()
    exact = copy.deepcopy(module).double()
    wide = tuple(t.double() if t.is_floating_point() else t for t in inputs)
    reference = exact(*wide)
    return module.to(dtype), tuple(t.to(dtype) if t.is_floating_point() else t for t in inputs), lambda *_: reference


def gradients(causal: bool, dtype, batch: int, heads: int, kv_heads: int, queries: int, keys: int, depth: int):
    """PyTorch's operator for the gradients of attention, given the results of the forward pass."""
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q, grad = torch.randn(2, batch, heads, queries, depth).to(dtype).unbind()
    k, v = torch.randn(2, batch, heads, keys, depth).to(dtype).unbind()
    out, lse = flash(q, k, v, 0.0, causal)

    def function(grad, q, k, v, out, lse):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, lse, 0.0, causal)

    def exact(grad, q, k, v, *_):
        with torch.enable_grad():
            wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
            result = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=causal)
        return torch.autograd.grad(result, wide, grad.double())

    return function, (grad, q, k, v, out, lse), exact


def all_cases():
    """Name, what builds it."""
    shapes = [(n, n, n) for n in (64, 128, 256, 512, 1024, 2048, 4096)]
    shapes += [(1024, 1536, 384), (1024, 384, 1536), (1024, 384, 384)]
    few = [(m, 3072, 768) for m in (5, 16, 32, 64)]
    kinds = {
        "float32": (products.linear, shapes + few),
        "float32 given": (products.given, shapes),
        "medium": (products.medium_linear, [s for s in shapes if s[0] < 4096]),
        "bfloat16": (products.narrow_linear, shapes + few),
        "bfloat16 given": (products.narrow_given, shapes),
        "bytes": (products.byte_linear, shapes[2:6]),
        "bytes given": (products.byte_given, shapes[2:6]),
    }
    for kind, (build, sizes) in kinds.items():
        for size in sizes:
            yield f"{kind} {' x '.join(map(str, size))}", partial(build, *size)
    for sizes in products.ATTENTION[:2] + products.DECODING:
        for mask in ("plain", "causal", "mask", "padding"):
            if sizes[3] > 1 or mask in ("plain", "padding"):
                name = " x ".join(map(str, sizes))
                yield f"bfloat16 attention {mask} {name}", partial(products.attention, mask, torch.bfloat16, *sizes)
    for sizes in products.ATTENTION[:2]:
        for mask in ("plain", "causal", "mask"):
            yield f"float32 attention {mask} {' x '.join(map(str, sizes))}", partial(products.attention, mask, torch.float32, *sizes)
        for causal in (False, True):
            name = f"bfloat16 gradients of attention {'causal' if causal else 'plain'} {' x '.join(map(str, sizes))}"
            yield name, partial(gradients, causal, torch.bfloat16, *sizes)
    for name in ("minilm-8x128", "gpt-prefill-1x128", "resnet18-8", "mlp-64"):
        yield f"float32 model {name}", partial(model, name)
        yield f"bfloat16 model {name}", partial(model, name, torch.bfloat16)


def tensors(result) -> tuple:
    return result if isinstance(result, tuple | list) else (result,)


@torch.no_grad()
def measure(name: str, build, variants: dict, seconds: float) -> dict:
    """Prints a case; its seconds and ratios to the first variant (quartiles) by variant, {} if one is wrong."""
    torch.set_float32_matmul_precision("highest")
    function, inputs, exact = build()
    reference = tensors(exact(*inputs))
    brief = "medium" in name or "bfloat16" in name
    calls = {}
    for label, settings in variants.items():
        with variant(settings):
            compiled = products.by_freeze(function, inputs)
            found = zip(tensors(compiled(*inputs)), reference, strict=True)
            error = max(float((x.double() - y).abs().max() / y.abs().max()) for x, y in found)
        if not error < (3e-2 if brief else 5e-5):
            print(f"{name:44} {label} wrong: error {error:.1e}")
            return {}
        calls[label] = partial(compiled, *inputs)
    turns = take_turns({**calls, "torch": lambda: function(*inputs)}, seconds)
    times = "  ".join(f"{label} {t * 1e6:9.1f} us" for label, t in turns.fastest().items())
    subject = next(iter(calls))
    ratios = "  ".join(f"{peer}/{subject} {turns.ratio([peer], subject)}" for peer in turns if peer != subject)
    print(f"{name:44} {times}  {ratios}", flush=True)
    others = [peer for peer in turns if peer != subject]
    quartiles = {peer: np.percentile(turns.quotients([peer], subject), (25, 50, 75)).tolist() for peer in others}
    return {"subject": subject, "seconds": turns.fastest(), "ratios": quartiles}


@dataclass
class Shared:
    """A kernel whose time is shared out: what builds it so many times as deep, and with a right operand that is new in each call."""

    name: str
    products: int
    deep: Callable
    given: Callable | None = None


def shared_product(kind: str, packed, given, m: int, n: int, k: int) -> Shared:
    count = bare_tiles.products_of(kind, m, n, k)
    return Shared(f"{kind} {m} x {n} x {k}", count, lambda times: packed(m, n, times * k), lambda: given(m, n, k))


def shared_attention(kind: str, dtype, batch: int, heads: int, kv_heads: int, queries: int, keys: int, depth: int) -> Shared:
    count = bare_tiles.products_of(kind, queries, keys, depth) + bare_tiles.products_of(kind, queries, depth, keys)
    name = f"{kind} attention {' x '.join(map(str, (batch, heads, kv_heads, queries, keys, depth)))}"
    build = partial(products.attention, "plain", dtype, batch, heads, kv_heads, queries, keys)
    return Shared(name, batch * heads * count, lambda times: build(times * depth))


def shared_convolution(kind: str, dtype, batch: int, channels: int, filters: int, side: int) -> Shared:
    """3 × 3 by two."""
    count = bare_tiles.products_of(kind, batch * (side // 2) ** 2, filters, 9 * channels)

    def build(times):
        layer = torch.nn.Conv2d(times * channels, filters, 3, stride=2, padding=1, bias=False).to(dtype)
        return layer, (torch.randn(batch, times * channels, side, side).to(dtype),), None

    return Shared(f"{kind} convolution {batch} x {channels} x {side} x {side} to {filters}", count, build)


def shared_cases():
    for kind, packed, given in (
        ("float32", products.linear, products.given),
        ("bfloat16", products.narrow_linear, products.narrow_given),
        ("bytes", products.byte_linear, products.byte_given),
    ):
        for sizes in ((512, 512, 512), (1024, 1024, 1024), (1024, 384, 384), (16, 3072, 768)):
            yield shared_product(kind, packed, given, *sizes)
    for kind, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        for sizes in products.ATTENTION[:2]:
            yield shared_attention(kind, dtype, *sizes)
        yield shared_convolution(kind, dtype, 8, 64, 128, 56)


@torch.no_grad()
def share(case: Shared, threads: int, seconds: float) -> dict:
    """Prints and gives the shares of a kernel's time on tiles."""
    calls = {}
    with variant(TILES):
        asked = {"once": lambda: case.deep(1), "doubled": lambda: case.deep(2), **({"given": case.given} if case.given else {})}
        for label, build in asked.items():
            function, inputs, _ = build()
            calls[label] = partial(products.by_freeze(function, inputs), *inputs)
        bare = bare_tiles.BareLoop().seconds(threads) * case.products
    times = take_turns(calls, seconds).fastest()
    found = bare_tiles.shares(bare, times["once"], times["doubled"], times.get("given"))
    print(f"shares {case.name}: " + ", ".join(f"{what} {part:.2f}" for what, part in found.items()), flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each case and variant")
    parser.add_argument("--only", default="", help="a regular expression that the cases' names begin with")
    parser.add_argument("--most", type=int, default=4096, help="products whose sizes are all larger are left out")
    parser.add_argument("--minutes", type=float, default=600, help="after which no case is begun")
    parser.add_argument("--out", default="", help="a JSON file for all of it, written after each case")
    options = parser.parse_args()
    os.environ["HOLOGRAM_STRICT"] = "1"
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    variants = possible(VARIANTS)
    if not variants:
        print("this machine runs neither amx nor avx512", file=sys.stderr)
        return 2
    print(f"{options.threads} threads; variants {', '.join(variants)}")
    end = time.monotonic() + 60 * options.minutes
    found = {"threads": options.threads, "cases": {}, "shares": {}, "left_out": []}

    def wanted(part: str, name: str) -> bool:
        if time.monotonic() < end:
            return True
        found["left_out"].append(f"{part} {name}")
        return False

    def keep():
        if options.out:
            Path(options.out).write_text(json.dumps(found, indent=1))

    for name, build in all_cases():
        sizes = [int(n) for n in name.split() if n.isdigit()]
        if not re.match(options.only, name) or ("attention" not in name and sizes and min(sizes) > options.most):
            continue
        if wanted("case", name):
            found["cases"][name] = measure(name, build, variants, options.seconds)
            keep()
    for case in shared_cases() if "tiles" in variants else ():
        if re.match(options.only, case.name) and wanted("share", case.name):
            torch.set_float32_matmul_precision("highest")
            found["shares"][case.name] = share(case, options.threads, options.seconds)
            keep()
    keep()
    return 0 if all(found["cases"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
