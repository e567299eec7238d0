# tests/torch/blocks.py: what models of other packages are made of: video, detection, diffusion
"""Each function of `BLOCKS` returns a module in eval mode and its inputs."""

import torch
import torch.nn.functional as F
from torch import nn
from zoo import MLP, SelfAttention, make, merge_heads, normal


class PooledAttention(nn.Module):
    """Attention over a video's tokens behind a class token, pooled by 3-D depthwise convolutions (Fan et al. 2021)."""

    def __init__(self, width: int, heads: int, size: tuple):
        super().__init__()
        self.heads, self.size = heads, size
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        depth = width // heads
        strides = (1, 1, 1), (1, 2, 2), (1, 2, 2)
        self.pools = nn.ModuleList(nn.Conv3d(depth, depth, 3, s, 1, groups=depth, bias=False) for s in strides)
        self.norms = nn.ModuleList(nn.LayerNorm(depth) for _ in strides)

    def pooled(self, x, pool, norm):
        first, x = x[:, :, :1], x[:, :, 1:]
        images = x.transpose(2, 3).reshape(-1, x.shape[3], *self.size)
        x = pool(images).reshape(*x.shape[:2], x.shape[3], -1).transpose(2, 3)
        return norm(torch.cat((first, x), 2))

    def forward(self, x):
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = (self.pooled(t, pool, norm) for t, pool, norm in zip(qkv, self.pools, self.norms))
        return x + self.out(merge_heads(F.scaled_dot_product_attention(q, k, v) + q))


class DetectionHead(nn.Module):
    """Scores and boxes of the anchors of a feature pyramid, whose levels are joined (Lin et al. 2017)."""

    def __init__(self, width: int, anchors: int, classes: int):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(width << level, width, 1) for level in range(3))
        self.tower = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.GroupNorm(8, width), nn.ReLU())
        self.scores, self.boxes = nn.Conv2d(width, anchors * classes, 3, 1, 1), nn.Conv2d(width, anchors * 4, 3, 1, 1)
        self.anchors = anchors

    def forward(self, *levels):
        above, results = None, []
        for lateral, x in zip(reversed(self.lateral), reversed(levels)):
            x = lateral(x)
            above = x if above is None else x + F.interpolate(above, size=x.shape[-2:], mode="nearest")
            y = self.tower(above)
            per_anchor = [t.unflatten(1, (self.anchors, -1)).permute(0, 3, 4, 1, 2).flatten(1, 3) for t in (self.scores(y), self.boxes(y))]
            results.append((per_anchor[0].sigmoid(), per_anchor[1].clamp(max=4.0).exp()))
        scores, boxes = (torch.cat(t, 1) for t in zip(*results))
        best, order = scores.amax(-1).topk(20)
        return best, boxes.gather(1, order[..., None].expand(-1, -1, 4))


class UNetBlock(nn.Module):
    """Two convolutions with a time embedding between them, attention over pixels, and a smaller image made larger (Ho et al. 2020)."""

    def __init__(self, width: int):
        super().__init__()
        self.norms = nn.ModuleList((nn.GroupNorm(8, 2 * width), nn.GroupNorm(8, width), nn.GroupNorm(8, width)))
        self.first, self.second = nn.Conv2d(2 * width, width, 3, 1, 1), nn.Conv2d(width, width, 3, 1, 1)
        self.short, self.time = nn.Conv2d(2 * width, width, 1), nn.Linear(width, width)
        self.attention = SelfAttention(width, 4)
        self.larger = nn.Conv2d(width, width, 3, 1, 1)

    def forward(self, x, skipped, time):
        x = torch.cat((x, skipped), 1)
        y = self.first(F.silu(self.norms[0](x))) + self.time(F.silu(time))[..., None, None]
        x = self.short(x) + self.second(F.silu(self.norms[1](y)))
        tokens = self.norms[2](x).flatten(2).transpose(1, 2)
        x = x + self.attention(tokens).transpose(1, 2).reshape(x.shape)
        return self.larger(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class DiTBlock(nn.Module):
    """Attention and MLP whose norms are shifted, scaled and gated by a condition (Peebles and Xie 2022)."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention, self.mlp = SelfAttention(width, heads), MLP(width, 4 * width, width)
        self.modulation = nn.Linear(width, 6 * width)

    def forward(self, x, condition):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(F.silu(condition))[:, None].chunk(6, -1)
        x = x + gate1 * self.attention(self.norm(x) * (1 + scale1) + shift1)
        return x + gate2 * self.mlp(self.norm(x) * (1 + scale2) + shift2)


def video():
    return make(lambda: PooledAttention(96, 2, (4, 14, 14))), (normal(1, 785, 96),)


def detection():
    levels = [normal(1, 32 << k, 32 >> k, 32 >> k, seed=k) for k in range(3)]
    return make(lambda: DetectionHead(32, 3, 7)), tuple(levels)


def unet():
    return make(lambda: UNetBlock(64)), (normal(2, 64, 16, 16), normal(2, 64, 16, 16, seed=2), normal(2, 64, seed=3))


def dit():
    return make(lambda: DiTBlock(96, 4)), (normal(2, 64, 96), normal(2, 96, seed=2))


BLOCKS = {function.__name__: function for function in (video, detection, unet, dit)}
