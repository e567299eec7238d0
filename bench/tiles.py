# bench/tiles.py: multiply-adds, tiles, and tiles with and without prefetching, in one process, in turns
"""The table by which docs/processors.md and src/backend/cpu/processor.cpp choose instructions on AMX: run this on such a
machine (20 minutes with the defaults), at 2 and at 16 threads.

    python bench/tiles.py --threads 2
    python bench/tiles.py --only bfloat16 --seconds 1

Every case is compiled once for each variant, in a runtime of its own, with HOLOGRAM_CPU_ISA, HOLOGRAM_CPU_TERMS and
HOLOGRAM_CPU_TILE_PREFETCH as the variant says. Values are checked against double precision, then all variants and PyTorch
take turns. The columns are times of a call, and ratios (medians and quartiles over the turns): fma over tiles is the gain
that decides about float32, plain over tiles what prefetching does. On machines without AMX only "fma" and PyTorch run."""

import argparse
import contextlib
import os
import sys
from functools import partial

import products
import torch
from turns import take_turns

VARIANTS = {
    "tiles": {"HOLOGRAM_CPU_ISA": "amx", "HOLOGRAM_CPU_TERMS": "model"},
    "plain": {"HOLOGRAM_CPU_ISA": "amx", "HOLOGRAM_CPU_TERMS": "model", "HOLOGRAM_CPU_TILE_PREFETCH": "0"},
    "fma": {"HOLOGRAM_CPU_ISA": "avx512"},
}


@contextlib.contextmanager
def variant(settings: dict):
    """The native runtime, and what Python asks of the processor, as the environment now says."""
    from hologram_torch import device, precision

    caches = (device._make, precision._treatments, precision._brief_attention_is_pytorchs)
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


def all_cases():
    """Name, what builds it."""
    shapes = [(n, n, n) for n in (256, 512, 1024, 2048)] + [(1024, 1536, 384), (1024, 384, 1536), (1024, 384, 384)]
    few = [(m, 3072, 768) for m in (5, 16, 32, 64)]
    kinds = {
        "float32": (products.linear, shapes + few),
        "float32 given": (products.given, shapes),
        "medium": (products.medium_linear, shapes),
        "bfloat16": (products.narrow_linear, shapes + few),
        "bfloat16 given": (products.narrow_given, shapes),
        "bytes": (products.byte_linear, shapes[:4]),
        "bytes given": (products.byte_given, shapes[:4]),
    }
    for kind, (build, sizes) in kinds.items():
        for size in sizes:
            yield f"{kind} {' x '.join(map(str, size))}", partial(build, *size)
    for sizes in products.ATTENTION[:2]:
        name = " x ".join(map(str, sizes))
        yield f"bfloat16 attention {name}", partial(products.attention, "plain", torch.bfloat16, *sizes)
    for name in ("minilm-8x128", "gpt-prefill-1x128", "resnet18-8", "mlp-64"):
        yield f"float32 model {name}", partial(model, name)
        yield f"bfloat16 model {name}", partial(model, name, torch.bfloat16)


@torch.no_grad()
def measure(name: str, build, variants: dict, seconds: float) -> bool:
    torch.set_float32_matmul_precision("highest")
    function, inputs, exact = build()
    reference = exact(*inputs)
    brief = "medium" in name or "bfloat16" in name
    calls = {}
    for label, settings in variants.items():
        with variant(settings):
            compiled = products.by_freeze(function, inputs)
            error = float((compiled(*inputs).double() - reference).abs().max() / reference.abs().max())
        if not error < (3e-2 if brief else 5e-5):
            print(f"{name:44} {label} wrong: error {error:.1e}")
            return False
        calls[label] = partial(compiled, *inputs)
    turns = take_turns({**calls, "torch": lambda: function(*inputs)}, seconds)
    times = "  ".join(f"{label} {t * 1e6:9.1f} us" for label, t in turns.fastest().items())
    subject = next(iter(calls))
    ratios = "  ".join(f"{peer}/{subject} {turns.ratio([peer], subject)}" for peer in turns if peer != subject)
    print(f"{name:44} {times}  {ratios}", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each case and variant")
    parser.add_argument("--only", default="", help="a word of the cases' names")
    options = parser.parse_args()
    os.environ["HOLOGRAM_STRICT"] = "1"
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    variants = possible(VARIANTS)
    if not variants:
        print("this machine runs neither amx nor avx512", file=sys.stderr)
        return 2
    print(f"{options.threads} threads; variants {', '.join(variants)}")
    right = True
    for name, build in all_cases():
        if options.only in name:
            right &= measure(name, build, variants, options.seconds)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
