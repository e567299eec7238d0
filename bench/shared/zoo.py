# bench/shared/zoo.py: small models of the common architectures, with fixed seeds and no downloads
"""Each function of `ZOO` takes a dtype and returns a `Case`: an eval-mode module, example inputs,
and which input dimensions may vary from call to call. The classes take their sizes as arguments, so
that the benchmarks build larger ones from the same definitions."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Case(NamedTuple):
    """A model to compile.

    `dynamic` maps the name of a varying size to the (input, dimension) pairs that carry it.
    """

    module: nn.Module
    inputs: tuple
    dynamic: dict[str, list[tuple[int, int]]]

    def resized(self, sizes: dict[str, int]) -> tuple:
        """The inputs cut down to smaller sizes."""
        inputs = list(self.inputs)
        for name, size in sizes.items():
            for index, dim in self.dynamic[name]:
                inputs[index] = inputs[index].narrow(dim, 0, size)
        return tuple(t.clone(memory_format=torch.contiguous_format) for t in inputs)

    def size(self, name: str) -> int:
        """The example inputs' size of a dynamic dimension."""
        index, dim = self.dynamic[name][0]
        return self.inputs[index].shape[dim]


# --- multilayer perceptron ------------------------------------------------------------------------
class MLP(nn.Sequential):
    """Linear layers of the given widths with GELU between them."""

    def __init__(self, *widths: int):
        layers: list[nn.Module] = []
        for fan_in, fan_out in zip(widths, widths[1:]):
            layers += [nn.Linear(fan_in, fan_out), nn.GELU()]
        super().__init__(*layers[:-1])


# --- residual network (He et al. 2015) ------------------------------------------------------------
class BasicBlock(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Basic-block residual network; `stages` are (channels, blocks). ResNet-18 is the default."""

    def __init__(self, stages=((64, 2), (128, 2), (256, 2), (512, 2)), classes: int = 1000):
        super().__init__()
        channels = stages[0][0]
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks = []
        for stage, (width, count) in enumerate(stages):
            for block in range(count):
                blocks.append(BasicBlock(channels, width, 2 if stage and not block else 1))
                channels = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


# --- depthwise network (Sandler et al. 2018) ------------------------------------------------------
class InvertedResidual(nn.Module):
    """1 x 1 to more channels, depthwise 3 x 3, 1 x 1 to few."""

    def __init__(self, channels_in: int, channels: int, stride: int, ratio: int):
        super().__init__()
        wide = channels_in * ratio
        layers: list[nn.Module] = []
        if ratio != 1:
            layers += [nn.Conv2d(channels_in, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        self.layers = nn.Sequential(
            *layers,
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.residual = stride == 1 and channels_in == channels

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.residual else y


class MobileNet(nn.Module):
    """MobileNetV2; `stages` are (ratio, channels, blocks, stride)."""

    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self, stages=STAGES, first: int = 32, last: int = 1280, classes: int = 1000):
        super().__init__()
        layers = [nn.Conv2d(3, first, 3, 2, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU6()]
        for ratio, channels, blocks, stride in stages:
            for block in range(blocks):
                layers.append(InvertedResidual(first, channels, 1 if block else stride, ratio))
                first = channels
        layers += [nn.Conv2d(first, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU6()]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(last, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # else the image fades on its way through
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


# --- transformer parts ----------------------------------------------------------------------------
def split_heads(x, heads: int):
    """[batch, length, heads * width] → [batch, heads, length, width]"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x):
    """[batch, heads, length, width] → [batch, length, heads * width]"""
    return x.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None, causal=False):
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(x).chunk(3, -1))
        return self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)))


class BertLayer(nn.Module):
    """Post-norm encoder layer."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Encoder with a padding mask; returns all positions and a tanh-pooled first one."""

    def __init__(self, vocabulary=211, width=64, heads=4, layers=2, length=64):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(BertLayer(width, heads) for _ in range(layers))
        self.pool = nn.Linear(width, width)

    def forward(self, tokens, attend):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.token(tokens) + self.position(positions))
        mask = torch.zeros_like(attend, dtype=x.dtype).masked_fill(~attend, torch.finfo(x.dtype).min)
        mask = mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pool(x[:, 0]))


class GptBlock(nn.Module):
    """Pre-norm decoder block with an optional key-value cache."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, cache=None, position=None, mask=None):
        """With a cache ([2, batch, heads, length, width of a head]), `position` (int64, [n]) says
        where the n new keys and values go."""
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        if cache is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            cache[0].index_copy_(2, position, k)
            cache[1].index_copy_(2, position, v)
            y = F.scaled_dot_product_attention(q, cache[0], cache[1], mask)
        x = x + self.out(merge_heads(y))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """Decoder with tied input and output embeddings; returns logits of every position."""

    def __init__(self, vocabulary=199, width=64, heads=4, layers=2, length=64):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight)


class Gpt2Cached(Gpt2):
    """The same decoder with a static key-value cache, which each call updates in place.

    `forward(tokens [batch, n], position [n])` appends n tokens; prompt and single steps alike."""

    def __init__(self, vocabulary=199, width=64, heads=4, layers=2, length=64, batch=1):
        super().__init__(vocabulary, width, heads, layers, length)
        for layer in range(layers):
            cache = torch.zeros(2, batch, heads, length, width // heads)
            self.register_buffer(f"cache{layer}", cache)
        self.length = length

    def forward(self, tokens, position):
        x = self.token(tokens) + self.position(position)
        mask = torch.arange(self.length, device=tokens.device) <= position[:, None]
        for layer, block in enumerate(self.blocks):
            x = block(x, getattr(self, f"cache{layer}"), position, mask)
        return F.linear(self.norm(x), self.token.weight)


class RmsNorm(nn.Module):
    """Zhang and Sennrich 2019, computed in float32 as Llama does."""

    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def rotate(x, cos, sin):
    """Rotary position embedding (Su et al. 2021) of [batch, heads, length, width]."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        head = width // heads
        self.norm1 = RmsNorm(width)
        self.q = nn.Linear(width, heads * head, bias=False)
        self.k = nn.Linear(width, kv_heads * head, bias=False)
        self.v = nn.Linear(width, kv_heads * head, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = RmsNorm(width)
        hidden = width * 8 // 3
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        y = self.norm1(x)
        q = rotate(split_heads(self.q(y), self.heads), cos, sin)
        k = rotate(split_heads(self.k(y), self.kv_heads), cos, sin)
        v = split_heads(self.v(y), self.kv_heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(merge_heads(y))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """RMS norm, rotary positions, grouped query heads, SwiGLU; returns logits of every position."""

    def __init__(self, vocabulary=197, width=72, heads=6, kv_heads=2, layers=2):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, kv_heads) for _ in range(layers))
        self.norm = RmsNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head_width = width // heads

    def forward(self, tokens):
        x = self.token(tokens)
        exponents = torch.arange(0, self.head_width, 2, device=tokens.device) / self.head_width
        angles = torch.outer(torch.arange(tokens.shape[1], device=tokens.device), 10000.0**-exponents)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


class ViT(nn.Module):
    """Vision transformer (Dosovitskiy et al. 2020) over square patches, with a class token."""

    def __init__(self, size=32, patch=8, width=64, heads=4, layers=2, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.cls = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(width),
                    "attention": SelfAttention(width, heads),
                    "norm2": nn.LayerNorm(width),
                    "mlp": MLP(width, 4 * width, width),
                }
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.position
        for block in self.blocks:
            x = x + block["attention"](block["norm1"](x))
            x = x + block["mlp"](block["norm2"](x))
        return self.head(self.norm(x)[:, 0])


# --- recurrent networks ---------------------------------------------------------------------------
class Unrolled(nn.Module):
    """A recurrent cell applied to each step of [length, batch, width]; returns all hidden
    states."""

    def __init__(self, cell: nn.Module):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        hidden = x.new_zeros(x.shape[1], self.cell.hidden_size)
        state = (hidden, hidden) if isinstance(self.cell, nn.LSTMCell) else hidden
        outputs = []
        for step in x.unbind(0):
            state = self.cell(step, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs)


# --- the zoo --------------------------------------------------------------------------------------
def make(build, dtype=torch.float32) -> nn.Module:
    """Builds a module with the seed of the zoo, in eval mode and the given dtype."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build().to(dtype).eval()


def normal(*shape, dtype=torch.float32, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def tokens(*shape, vocabulary, seed=2):
    return torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def mlp(dtype=torch.float32) -> Case:
    module = make(lambda: MLP(48, 96, 64, 10), dtype)
    return Case(module, (normal(5, 48, dtype=dtype),), {"batch": [(0, 0)]})


def resnet(dtype=torch.float32) -> Case:
    module = make(lambda: ResNet(((16, 1), (32, 1)), classes=10), dtype)
    with torch.no_grad():  # running statistics that are not those of a fresh module
        for index, norm in enumerate(m for m in module.modules() if isinstance(m, nn.BatchNorm2d)):
            norm.running_mean.copy_(0.1 * normal(norm.num_features, dtype=dtype, seed=index))
            norm.running_var.copy_(0.5 + normal(norm.num_features, dtype=dtype, seed=index).abs())
    return Case(module, (normal(4, 3, 32, 32, dtype=dtype),), {"batch": [(0, 0)]})


def mobilenet(dtype=torch.float32) -> Case:
    stages = ((1, 8, 1, 1), (3, 12, 2, 2))
    module = make(lambda: MobileNet(stages, first=8, last=40, classes=10), dtype)
    return Case(module, (normal(4, 3, 32, 32, dtype=dtype),), {"batch": [(0, 0)]})


def bert(dtype=torch.float32) -> Case:
    attend = torch.arange(12) < torch.tensor([12, 7, 9, 1])[:, None]
    inputs = (tokens(4, 12, vocabulary=211), attend)
    dynamic = {"batch": [(0, 0), (1, 0)], "length": [(0, 1), (1, 1)]}
    return Case(make(Bert, dtype), inputs, dynamic)


def gpt2(dtype=torch.float32) -> Case:
    inputs = (tokens(4, 13, vocabulary=199),)
    return Case(make(Gpt2, dtype), inputs, {"batch": [(0, 0)], "length": [(0, 1)]})


def gpt2_cached(dtype=torch.float32) -> Case:
    inputs = (tokens(1, 9, vocabulary=199), torch.arange(9))
    return Case(make(Gpt2Cached, dtype), inputs, {"length": [(0, 1), (1, 0)]})


def llama(dtype=torch.float32) -> Case:
    inputs = (tokens(4, 11, vocabulary=197),)
    return Case(make(Llama, dtype), inputs, {"batch": [(0, 0)], "length": [(0, 1)]})


def vit(dtype=torch.float32) -> Case:
    return Case(make(ViT, dtype), (normal(4, 3, 32, 32, dtype=dtype),), {"batch": [(0, 0)]})


def encoder_layer(dtype=torch.float32) -> Case:
    """nn.TransformerEncoderLayer, which eager runs as one opaque operator."""
    build = lambda: nn.TransformerEncoderLayer(48, 4, 96, batch_first=True, activation="gelu")
    inputs = (normal(4, 10, 48, dtype=dtype),)
    return Case(make(build, dtype), inputs, {"batch": [(0, 0)], "length": [(0, 1)]})


def lstm(dtype=torch.float32) -> Case:
    module = make(lambda: nn.LSTM(24, 32, 2), dtype)
    return Case(module, (normal(7, 4, 24, dtype=dtype),), {"batch": [(0, 1)], "length": [(0, 0)]})


def gru(dtype=torch.float32) -> Case:
    build = lambda: nn.GRU(24, 32, bidirectional=True)
    inputs = (normal(7, 4, 24, dtype=dtype),)
    return Case(make(build, dtype), inputs, {"batch": [(0, 1)], "length": [(0, 0)]})


def lstm_cell(dtype=torch.float32) -> Case:
    module = make(lambda: Unrolled(nn.LSTMCell(24, 32)), dtype)
    return Case(module, (normal(4, 4, 24, dtype=dtype),), {"batch": [(0, 1)]})


def gru_cell(dtype=torch.float32) -> Case:
    module = make(lambda: Unrolled(nn.GRUCell(24, 32)), dtype)
    return Case(module, (normal(4, 4, 24, dtype=dtype),), {"batch": [(0, 1)]})


ZOO = {
    function.__name__: function
    for function in (mlp, resnet, mobilenet, bert, gpt2, gpt2_cached, llama, vit, encoder_layer, lstm, gru, lstm_cell, gru_cell)
}
