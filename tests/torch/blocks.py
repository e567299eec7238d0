# tests/torch/blocks.py: what models of other packages are made of: detection, diffusion
"""Each function of `BLOCKS` returns a module in eval mode and its inputs."""

import torch
import torch.nn.functional as F
from torch import nn
from zoo import SelfAttention, make, normal


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


def detection():
    levels = [normal(1, 32 << k, 32 >> k, 32 >> k, seed=k) for k in range(3)]
    return make(lambda: DetectionHead(32, 3, 7)), tuple(levels)


def unet():
    return make(lambda: UNetBlock(64)), (normal(2, 64, 16, 16), normal(2, 64, 16, 16, seed=2), normal(2, 64, seed=3))


BLOCKS = {function.__name__: function for function in (detection, unet)}
