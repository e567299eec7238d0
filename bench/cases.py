# bench/cases.py: the benchmark cases, by name
"""A case builds a function or an eval-mode module, as people write it, and its inputs; the name
says the sizes. A call of a function is free of nn.Module's cost, for every peer alike; exporters
get it inside a module."""

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass

UNITS = {"K": 1000, "M": 1000_000}


@dataclass(frozen=True)
class Case:
    """`build()` returns (function or module, inputs). A result is wrong when its largest error
    against float64 exceeds `tolerance` times the largest value. `title`: how tables for people name
    it; they leave out cases without one. Barred cases count in the geometric mean; quick ones run
    with --quick. `stateless(module, inputs)` returns the same without state, for exporters."""

    name: str
    build: Callable
    tolerance: float = 5e-5
    precision: str = "f32"
    barred: bool = True
    quick: bool = False
    stateless: Callable | None = None
    title: str = ""


def count(text: str) -> int:
    """ "10K" → 10000"""
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def chain(size: str):
    import models

    n = count(size)
    return models.chain, tuple(models.normal(n, seed=s) for s in range(3))


def add(size: str):
    import models

    n = count(size)
    return models.add, tuple(models.normal(n, seed=s) for s in range(2))


def softmax(size: str):
    import models

    rows, columns = map(int, size.split("x"))
    return models.softmax, (models.normal(rows, columns),)


def add_layer_norm(size: str):
    import models

    rows, width = map(int, size.split("x"))
    module = models.make(lambda: models.AddLayerNorm(width))
    return module, tuple(models.normal(rows, width, seed=s) for s in range(2))


def reduction(dim, size: int = 2048):
    import models

    return models.sum_over(dim), (models.normal(size, size) + 0.5,)


def matmul(size: str):
    import models

    n = int(size)
    return models.matmul, tuple(models.normal(n, n, seed=s) for s in range(2))


def mlp(batch: int):
    import models

    module = models.make(lambda: models.MLP(784, 512, 512, 256, 10))
    return module, (models.normal(batch, 784),)


def resnet18(batch: int):
    import models

    return models.make(models.ResNet), (models.normal(batch, 3, 224, 224),)


def mobilenet(batch: int):
    import models

    return models.make(models.MobileNet), (models.normal(batch, 3, 224, 224),)


def minilm(batch: int, length: int, dtype: str = "float32"):
    import models
    import torch

    inputs = (
        models.tokens(batch, length, vocabulary=30000),
        torch.ones(batch, length, dtype=torch.int64),
    )
    return models.minilm().to(getattr(torch, dtype)), inputs


GPT = {"vocabulary": 16384, "width": 512, "heads": 8, "layers": 6, "length": 256}


def gpt_prefill(length: int = 128):
    import models

    module = models.make(lambda: models.Gpt2(**GPT))
    return module, (models.tokens(1, length, vocabulary=GPT["vocabulary"]),)


def gpt_decode(position: int = 128):
    import models
    import torch

    module = models.make(lambda: models.Gpt2Cached(**GPT))
    prompt = models.tokens(1, position, vocabulary=GPT["vocabulary"])
    module(prompt, torch.arange(position))
    return module, (prompt[:, -1:], torch.tensor([position]))


def stateless_decode(module, inputs):
    import models

    caches = tuple(cache.clone() for _, cache in module.named_buffers())
    return models.FunctionalDecode(module), (*inputs, *caches)


def tiny(kind: str):
    """Graphs whose kernels take next to no time: what remains is the cost of a call."""
    import models

    if kind == "add":
        return models.add, tuple(models.normal(16, seed=s) for s in range(2))
    if kind == "chain":
        return models.chain, tuple(models.normal(16, seed=s) for s in range(3))
    if kind == "mlp":
        return models.make(lambda: models.MLP(8, 8, 8)), (models.normal(1, 8),)
    module = models.make(lambda: models.Bert(vocabulary=16, width=8, heads=2, layers=2, length=8))
    tokens = models.tokens(1, 4, vocabulary=16)
    return module, (tokens, tokens >= 0)


SIZED = {
    "chain": chain,
    "add": add,
    "softmax": softmax,
    "layernorm": add_layer_norm,
    "matmul": matmul,
    "tiny": tiny,
}


def sized(family: str, size: str, **options) -> Case:
    return Case(f"{family}-{size}", lambda: SIZED[family](size), **options)


CASES = [
    *(
        sized("chain", s, quick=s in ("1K", "1M"), title=f"gelu(x·w + b) · sigmoid(x), {s[:-1]} {s[-1]} elements")
        for s in ("1K", "10K", "100K", "1M", "10M")
    ),
    *(
        sized("add", s, barred=s in ("1M", "10M"), quick=s == "1M",
              title=f"addition, {s[:-1]} {s[-1]} elements" if s[-1] == "M" else "")
        for s in ("1K", "10K", "100K", "1M", "10M")
    ),
    sized("softmax", "1024x1024", quick=True, title="softmax 1024 × 1024"),
    sized("softmax", "64x50257", title="softmax 64 × 50257"),
    sized("layernorm", "512x768", quick=True, title="addition + layer norm 512 × 768"),
    Case("sum-last-2048x2048", lambda: reduction(-1), quick=True, title="sum over the last axis, 2048 × 2048"),
    Case("sum-first-2048x2048", lambda: reduction(0), title="sum over the first axis, 2048 × 2048"),
    Case("sum-all-2048x2048", lambda: reduction(None), title="sum of all, 2048 × 2048"),
    *(
        sized("matmul", str(n), barred=False, quick=n == 512,
              title=f"product {n} × {n} × {n}" if n in (512, 2048) else "")
        for n in (64, 128, 256, 512, 1024, 2048)
    ),
    Case("mlp-1", lambda: mlp(1), quick=True, title="MLP, batch 1"),
    Case("mlp-64", lambda: mlp(64), title="MLP, batch 64"),
    Case("resnet18-1", lambda: resnet18(1), barred=False, title="ResNet-18, batch 1"),
    Case("resnet18-8", lambda: resnet18(8), barred=False, title="ResNet-18, batch 8"),
    Case("mobilenet-1", lambda: mobilenet(1), barred=False, title="MobileNetV2-like, batch 1"),
    Case("mobilenet-8", lambda: mobilenet(8), barred=False, title="MobileNetV2-like, batch 8"),
    Case("minilm-1x16", lambda: minilm(1, 16), quick=True, title="MiniLM encoder, 1 × 16 tokens"),
    Case("minilm-8x128", lambda: minilm(8, 128), title="MiniLM encoder, 8 × 128 tokens"),
    Case("minilm-8x128-bf16", lambda: minilm(8, 128, "bfloat16"), tolerance=4e-2, precision="bf16", barred=False,
         title="MiniLM encoder, 8 × 128 tokens, bfloat16"),
    Case("gpt-prefill-1x128", gpt_prefill, barred=False, title="GPT-2-like (6 layers of 512), prefill of 128"),
    Case("gpt-decode-1x1", gpt_decode, barred=False, stateless=stateless_decode,
         title="GPT-2-like, decode step"),
]  # fmt: skip


def find(name: str) -> Case:
    """A case of the list, or one of a sized family with any size ("chain-300000", "tiny-mlp")."""
    for case in CASES:
        if case.name == name:
            return case
    family, _, size = name.partition("-")
    if family not in SIZED or not size:
        raise ValueError(f"no case is called {name!r}; known: {', '.join(c.name for c in CASES)}")
    return sized(family, size, barred=False)


def select(patterns: list[str]) -> list[Case]:
    """The cases whose names match any of the patterns, in the list's order; then any-size ones."""
    chosen = [c for c in CASES if any(fnmatch.fnmatchcase(c.name, p) for p in patterns)]
    unmatched = [p for p in patterns if not fnmatch.filter([c.name for c in CASES], p)]
    return chosen + [find(p) for p in unmatched]
