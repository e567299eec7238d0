# bench/cuda_cases.py: what is measured on a GPU, by name, and the bars that hold for it
"""A case builds a function or an eval-mode module and its inputs for a device; in a dry run they are tiny."""

from collections.abc import Callable
from dataclasses import dataclass

import models
import torch
import torch.nn.functional as F
from models import zoo
from torch import nn

BF16, F32 = torch.bfloat16, torch.float32


@dataclass(frozen=True)
class Case:
    """`build(device, dry)` returns (function or module, inputs). The bar is the longest time per call in µs, or the least ratio
    of the best time of `beside` to ours. `bytes` and `flops` of a call say what the device allows. `error`: the largest one of a
    product in units of 2^-24 sum |x||y|; elsewhere `tolerance` bounds it, of the largest value."""

    name: str
    build: Callable
    at_most: float | None = None
    at_least: float | None = None
    beside: tuple[str, ...] = ("eager",)
    bytes: float = 0
    flops: float = 0
    error: float | None = None
    tolerance: float = 5e-5
    model: bool = False
    training: bool = False  # the last input is the result's gradient: the call gives the result and the others' gradients


def normal(device, *shape, dtype=F32, seed=0):
    generator = torch.Generator(device).manual_seed(seed + 1)
    return torch.randn(*shape, dtype=dtype, device=device, generator=generator)


def chain(n):
    return lambda device, dry: (models.chain, tuple(normal(device, 999 if dry else n, seed=s) for s in range(3)))


def add(n):
    return lambda device, dry: (models.add, tuple(normal(device, 999 if dry else n, seed=s) for s in range(2)))


def softmax(rows, columns, dtype):
    return lambda device, dry: (models.softmax, (normal(device, *((3, 70) if dry else (rows, columns)), dtype=dtype),))


class AddNorm(nn.Module):
    """The sum is kept too, as a residual network does."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, y):
        z = x + y
        return self.norm(z), z


def add_norm(rows, width, dtype):
    def build(device, dry):
        shape = (5, 48) if dry else (rows, width)
        return AddNorm(shape[1]).to(device, dtype).eval(), tuple(normal(device, *shape, dtype=dtype, seed=s) for s in range(2))

    return build


def sum_over(dim, n):
    return lambda device, dry: (models.sum_over(dim), (normal(device, *((6, 70) if dry else (n, n))),))


def product(n, dtype):
    def build(device, dry):
        size = 40 if dry else n
        return models.matmul, tuple(normal(device, size, size, dtype=dtype, seed=s) for s in range(2))

    return build


class Feed(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)

    def forward(self, x):
        return F.gelu(self.up(x))


def feed(rows, width, hidden):
    def build(device, dry):
        n, k, m = (17, 32, 48) if dry else (rows, width, hidden)
        return Feed(k, m).to(device, BF16).eval(), (normal(device, n, k, dtype=BF16),)

    return build


def attention(batch, heads, length, depth, dtype, causal):
    def build(device, dry):
        shape = (1, 2, 18, 16) if dry else (batch, heads, length, depth)
        operands = tuple(normal(device, *shape, dtype=dtype, seed=s) for s in range(3))
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), operands

    return build


def attention_step(batch, heads, length, depth, dtype, causal):
    def build(device, dry):
        function, operands = attention(batch, heads, length, depth, dtype, causal)(device, dry)
        return function, (*operands, normal(device, *operands[0].shape, dtype=dtype, seed=3))

    return build


def mlp(batch):
    def build(device, dry):
        widths = (24, 16, 12, 10) if dry else (784, 512, 256, 10)
        return zoo.make(lambda: zoo.MLP(*widths)).to(device), (normal(device, min(batch, 20) if dry else batch, widths[0]),)

    return build


def minilm(batch, length, dtype):
    def build(device, dry):
        sizes = (101, 32, 2, 1, 16) if dry else (30522, 384, 12, 6, 512)
        batch_, length_ = (2, 7) if dry else (batch, length)
        model = zoo.make(lambda: zoo.Bert(*sizes), dtype).to(device)
        generator = torch.Generator(device).manual_seed(3)
        ids = torch.randint(sizes[0], (batch_, length_), device=device, generator=generator)
        return model, (ids, torch.ones_like(ids, dtype=torch.bool))

    return build


class LlamaBlock(nn.Module):
    """Grouped heads over a cache that is written in place."""

    def __init__(self, width, heads, kv_heads, hidden, room):
        super().__init__()
        self.heads, self.kv_heads, head = heads, kv_heads, width // heads
        self.norm1, self.norm2 = zoo.RmsNorm(width), zoo.RmsNorm(width)
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * head, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, kv_heads, room, head))

    def forward(self, x, cos, sin, position, mask):
        y = self.norm1(x)
        q = zoo.rotate(zoo.split_heads(self.q(y), self.heads), cos, sin)
        k = zoo.rotate(zoo.split_heads(self.k(y), self.kv_heads), cos, sin)
        v = zoo.split_heads(self.v(y), self.kv_heads)
        if mask is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            self.keys.index_copy_(2, position, k)
            self.values.index_copy_(2, position, v)
            y = F.scaled_dot_product_attention(q, self.keys, self.values, mask, enable_gqa=True)
        x = x + self.out(zoo.merge_heads(y))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """As Llama 3.2 of 1.2 billion weights is built: logits of the last position; the head is the embedding."""

    def __init__(self, vocabulary, width, heads, kv_heads, hidden, layers, room):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, kv_heads, hidden, room) for _ in range(layers))
        self.norm = zoo.RmsNorm(width)
        self.head_width, self.room = width // heads, room

    def forward(self, tokens, position=None):
        x = self.token(tokens)
        at = torch.arange(tokens.shape[1], device=tokens.device) if position is None else position
        exponents = torch.arange(0, self.head_width, 2, device=tokens.device) / self.head_width
        angles = torch.outer(at, 500000.0**-exponents)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        mask = None if position is None else torch.arange(self.room, device=tokens.device)[None, :] <= position[:, None]
        for block in self.blocks:
            x = block(x, cos, sin, position, mask)
        return self.norm(x[:, -1]) @ self.token.weight.mT


def llama(decodes):
    def build(device, dry):
        sizes = (97, 32, 4, 2, 48, 2, 24) if dry else (128256, 2048, 32, 8, 8192, 16, 1024)
        with torch.device(device):
            model = zoo.make(lambda: Llama(*sizes), BF16)
        length = 1 if decodes else 6 if dry else 512
        generator = torch.Generator(device).manual_seed(3)
        ids = torch.randint(sizes[0], (1, length), device=device, generator=generator)
        return model, (ids, torch.tensor([sizes[-1] // 2], device=device)) if decodes else (ids,)

    return build


ALL = ("eager", "inductor", "inductor-graphs", "max-autotune")
M = 1_000_000
CASES = {
    case.name: case
    for case in (
        Case("chain 1K", chain(1000), 25, bytes=16e3),
        Case("chain 1M", chain(M), 25, bytes=16e6),
        Case("chain 100M", chain(100 * M), 560, bytes=16e8),
        Case("add 100M", add(100 * M), 405, bytes=12e8),
        Case("softmax 8192x8192 bf16", softmax(8192, 8192, BF16), 100, bytes=4 * 8192**2, tolerance=1e-2),
        Case("softmax 64x50257", softmax(64, 50257, F32), 15, bytes=8 * 64 * 50257),
        Case("add + layer norm 16384x4096 bf16", add_norm(16384, 4096, BF16), 190, bytes=8 * 16384 * 4096, tolerance=1e-2),
        Case("sum of rows 8192x8192", sum_over(-1, 8192), 98, bytes=4 * 8192**2),
        Case("sum of columns 8192x8192", sum_over(0, 8192), 98, bytes=4 * 8192**2),
        Case("product 1024", product(1024, F32), at_least=1.3, flops=2 * 1024**3, error=1.5),
        Case("product 4096", product(4096, F32), at_least=2.0, flops=2 * 4096**3, error=1.5),
        Case("product 4096 bf16", product(4096, BF16), at_least=0.95, flops=2 * 4096**3, tolerance=1e-2),
        Case("product 8192 bf16", product(8192, BF16), at_least=0.95, flops=2 * 8192**3, tolerance=1e-2),
        Case("gelu(linear) 8192x4096x16384 bf16", feed(8192, 4096, 16384), at_least=1.1, flops=2 * 8192 * 4096 * 16384, tolerance=2e-2),
        Case("attention 4x32x2048x128 bf16", attention(4, 32, 2048, 128, BF16, False), at_least=0.95,
             flops=4 * 4 * 32 * 2048**2 * 128, tolerance=2e-2),
        Case("attention 4x32x2048x128 bf16 causal", attention(4, 32, 2048, 128, BF16, True), at_least=0.95,
             flops=2 * 4 * 32 * 2048**2 * 128, tolerance=2e-2),
        Case("attention 2x12x1024x64", attention(2, 12, 1024, 64, F32, False), at_least=1.5, flops=4 * 2 * 12 * 1024**2 * 64),
        Case("attention step 4x32x2048x128 bf16 causal", attention_step(4, 32, 2048, 128, BF16, True), at_least=0.9,
             flops=7 * 4 * 32 * 2048**2 * 128, tolerance=2e-2, training=True),
        Case("attention step 2x12x1024x64", attention_step(2, 12, 1024, 64, F32, False), at_least=1.0, flops=14 * 2 * 12 * 1024**2 * 64,
             training=True),
        Case("mlp 1", mlp(1), 40, model=True),
        Case("mlp 1024", mlp(1024), 45, model=True),
        Case("minilm 8x128", minilm(8, 128, F32), 600, model=True, tolerance=2e-4),
        Case("minilm 64x128 bf16", minilm(64, 128, BF16), at_least=1.3, beside=ALL, model=True, tolerance=5e-2),
        Case("llama prefill 512 bf16", llama(False), 2300, model=True, tolerance=8e-2),
        Case("llama decode bf16", llama(True), 1050, bytes=2 * 1.236e9, model=True, tolerance=8e-2),
    )
}  # fmt: skip
