#!/usr/bin/env python3
# bench/convolutions.py: convolution, pooling and interpolation against eager PyTorch, in one process
"""Each case is checked against float64, then both sides are timed in turns; prints the median ratio and its
quartiles (turns.py).

    python bench/convolutions.py [--threads 2] [--seconds 0.4] [--only WORD] [--below 1.0]

"layer" is a module whose weights stay, without gradients; "given" the same with the weight as an input that is new in
each call; "step" the forward and backward pass to the gradients of image and weights. Images are contiguous unless the
name says "last" (channels last). Both sides go through what a user calls: torch.compile and PyTorch itself.
"""

import argparse
import copy
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

import hologram_torch
from turns import take_turns


def conv(kind, batch, channels, out, size, kernel, **options):
    """What makes (module, image) for one convolution layer of `kind` (nn.Conv2d …) over an image of `size`."""
    return lambda: (kind(channels, out, kernel, **options), torch.randn(batch, channels, *size))


def plain(function, *shape):
    """The same for a function without weights."""

    class Plain(nn.Module):
        def forward(self, x):
            return function(x)

    return lambda: (Plain(), torch.randn(*shape))


class Then(nn.Module):
    """A layer and what follows it in one graph."""

    def __init__(self, layer, function):
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, x):
        return self.function(self.layer(x))


def then(make, function):
    def build():
        layer, x = make()
        return Then(layer, function), x

    return build


C1, C2, C3 = nn.Conv1d, nn.Conv2d, nn.Conv3d
T1, T2, T3 = nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d
CONVOLUTIONS = {
    "1x1 256>64 56": conv(C2, 1, 256, 64, (56, 56), 1),
    "1x1 64>256 28 x8": conv(C2, 8, 64, 256, (28, 28), 1),
    "3x3 64>64 56": conv(C2, 1, 64, 64, (56, 56), 3, padding=1),
    "3x3 128>128 28": conv(C2, 1, 128, 128, (28, 28), 3, padding=1),
    "3x3 256>256 14": conv(C2, 1, 256, 256, (14, 14), 3, padding=1),
    "3x3 512>512 7": conv(C2, 1, 512, 512, (7, 7), 3, padding=1),
    "3x3/2 64>128 56": conv(C2, 1, 64, 128, (56, 56), 3, padding=1, stride=2),
    "7x7/2 3>64 224": conv(C2, 1, 3, 64, (224, 224), 7, padding=3, stride=2),
    "3x3 16>16 32 x8": conv(C2, 8, 16, 16, (32, 32), 3, padding=1),
    "dilated 3x3 64>64 56": conv(C2, 1, 64, 64, (56, 56), 3, padding=2, dilation=2),
    "depthwise 3x3 144 56": conv(C2, 1, 144, 144, (56, 56), 3, padding=1, groups=144),
    "depthwise 3x3/2 96 112": conv(C2, 1, 96, 96, (112, 112), 3, padding=1, stride=2, groups=96),
    "depthwise 7x7 96 56": conv(C2, 1, 96, 96, (56, 56), 7, padding=3, groups=96),
    "grouped32 3x3 128>128 56": conv(C2, 1, 128, 128, (56, 56), 3, padding=1, groups=32),
    "grouped32 3x3 256>256 28": conv(C2, 1, 256, 256, (28, 28), 3, padding=1, groups=32),
    "grouped32 3x3 512>512 14": conv(C2, 1, 512, 512, (14, 14), 3, padding=1, groups=32),
    "conv1d 80>384 k3 3000": conv(C1, 1, 80, 384, (3000,), 3, padding=1),
    "conv1d/2 384>384 k3 3000": conv(C1, 1, 384, 384, (3000,), 3, padding=1, stride=2),
    "conv1d depthwise 256 k31 400": conv(C1, 4, 256, 256, (400,), 31, padding=15, groups=256),
    "conv3d 3>32 k3 8x56x56": conv(C3, 1, 3, 32, (8, 56, 56), 3, padding=1),
    "conv3d 32>64 k3 8x28x28": conv(C3, 1, 32, 64, (8, 28, 28), 3, padding=1),
    "transposed 2x2/2 128>64 28": conv(T2, 1, 128, 64, (28, 28), 2, stride=2),
    "transposed 4x4/2 128>64 28": conv(T2, 1, 128, 64, (28, 28), 4, stride=2, padding=1),
    "transposed 1d k8/4 128>64 500": conv(T1, 1, 128, 64, (500,), 8, stride=4, padding=2),
    "transposed 3d k2/2 64>32 8x14x14": conv(T3, 1, 64, 32, (8, 14, 14), 2, stride=2),
}
POOLS = {
    "max 3x3/2 64 112": plain(lambda x: F.max_pool2d(x, 3, 2, 1), 1, 64, 112, 112),
    "max 2x2/2 64 112": plain(lambda x: F.max_pool2d(x, 2), 1, 64, 112, 112),
    "average 2x2/2 128 56": plain(lambda x: F.avg_pool2d(x, 2), 1, 128, 56, 56),
    "average 3x3 128 56": plain(lambda x: F.avg_pool2d(x, 3, 1, 1), 1, 128, 56, 56),
    "average 8x8 128 56": plain(lambda x: F.avg_pool2d(x, 8), 1, 128, 56, 56),
    "adaptive 1 512 7 x8": plain(lambda x: F.adaptive_avg_pool2d(x, 1), 8, 512, 7, 7),
    "adaptive 7 256 14": plain(lambda x: F.adaptive_avg_pool2d(x, 7), 1, 256, 14, 14),
    "adaptive 5 256 14": plain(lambda x: F.adaptive_avg_pool2d(x, 5), 1, 256, 14, 14),
    "adaptive max 7 256 14": plain(lambda x: F.adaptive_max_pool2d(x, 7), 1, 256, 14, 14),
    "max1d 3/2 256 3000": plain(lambda x: F.max_pool1d(x, 3, 2, 1), 1, 256, 3000),
    "max3d 2/2 64 8x28x28": plain(lambda x: F.max_pool3d(x, 2), 1, 64, 8, 28, 28),
}
SCALES = {
    f"{mode} {note} 64 56": plain(lambda x, o=options: F.interpolate(x, **o), 1, 64, 56, 56)
    for mode, note, options in (
        ("nearest", "x2", dict(scale_factor=2, mode="nearest")),
        ("nearest", "/2", dict(scale_factor=0.5, mode="nearest")),
        ("bilinear", "x2", dict(scale_factor=2, mode="bilinear")),
        ("bilinear", "to 100", dict(size=(100, 100), mode="bilinear")),
        ("bilinear", "corners x2", dict(scale_factor=2, mode="bilinear", align_corners=True)),
        ("bicubic", "x2", dict(scale_factor=2, mode="bicubic")),
    )
}
PADS = {
    f"{mode} 64 56": plain(lambda x, m=mode: F.pad(x, (2, 2, 2, 2), mode=m), 1, 64, 56, 56)
    for mode in ("constant", "reflect", "replicate", "circular")
}
CHAINS = {
    "conv+relu+max2 64>64 56": then(CONVOLUTIONS["3x3 64>64 56"], lambda x: F.max_pool2d(F.relu(x), 2)),
    "grouped32+relu 512 14": then(CONVOLUTIONS["grouped32 3x3 512>512 14"], F.relu),
    "conv+bilinear x2 64>64 56": then(CONVOLUTIONS["3x3 64>64 56"], lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
}
STEPS = ("1x1 256>64 56", "3x3 64>64 56", "3x3 256>256 14", "3x3/2 64>128 56", "7x7/2 3>64 224", "depthwise 3x3 144 56",
         "depthwise 3x3/2 96 112", "grouped32 3x3 128>128 56", "conv1d 80>384 k3 3000", "conv3d 32>64 k3 8x28x28",
         "transposed 2x2/2 128>64 28", "transposed 4x4/2 128>64 28")  # fmt: skip


def cases():
    """Name, what builds (module, image), which of layer, given and step."""
    for name, make in CONVOLUTIONS.items():
        yield f"layer {name}", make, "layer"
        yield f"layer last {name}", make, "layer"
        yield f"given {name}", make, "given"
    for group in (POOLS, SCALES, PADS, CHAINS):
        for name, make in group.items():
            yield f"layer {name}", make, "layer"
            yield f"layer last {name}", make, "layer"
    for name in STEPS:
        yield f"step {name}", CONVOLUTIONS[name], "step"
    for name in ("max 3x3/2 64 112", "average 3x3 128 56"):
        yield f"step {name}", POOLS[name], "step"
    for name in ("nearest x2 64 56", "bilinear x2 64 56"):
        yield f"step {name}", SCALES[name], "step"


def given(module, x):
    """The module as a function of image and parameters."""
    names, values = zip(*((n, p.detach()) for n, p in module.named_parameters()), strict=True)

    def call(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x,))

    return call, (x, *values)


def stepper(module, function, x, gradient):
    """One training step: the result's value and the gradients of image and parameters."""
    parameters = list(module.parameters())

    def call():
        y = function(x)
        return (y, *torch.autograd.grad(y, [x, *parameters], gradient))

    return call


def calls(make, kind, last):
    """ours, eager's and the exact one"""
    module, x = make()
    if last and x.dim() == 4:
        x = x.to(memory_format=torch.channels_last)
    exact = copy.deepcopy(module).double()
    compiled = lambda f: torch.compile(f, backend=hologram_torch.hologram, dynamic=False)  # noqa: E731
    if kind == "step":
        x.requires_grad_()
        with torch.no_grad():
            gradient = torch.randn_like(module(x))
        wide = x.detach().double().requires_grad_()
        ours, theirs = (stepper(module, f, x, gradient) for f in (compiled(module), module))
        return ours, theirs, stepper(exact, exact, wide, gradient.double())
    module.requires_grad_(False)
    exact.requires_grad_(False)
    if kind == "given":
        function, inputs = given(module, x)
        ours = compiled(function)
        return lambda: ours(*inputs), lambda: function(*inputs), lambda: exact(x.double())
    ours = compiled(module)
    return lambda: ours(x), lambda: module(x), lambda: exact(x.double())


def error(actual, exact) -> float:
    """The largest error of any result relative to that result's largest value."""
    each = lambda t: t if isinstance(t, tuple) else (t,)  # noqa: E731
    worst = 0.0
    for a, e in zip(each(actual), each(exact), strict=True):
        if a.shape != e.shape:
            return float("inf")
        worst = max(worst, ((a.double() - e).abs().max() / e.abs().max().clamp(min=1e-30)).item())
    return worst


def measure(name: str, make, kind: str, seconds: float, below: float) -> bool:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.enable_grad() if kind == "step" else torch.no_grad():
        ours, theirs, exact = calls(make, kind, " last " in f" {name} ")
        wrong = error(ours(), exact())
        if not wrong < 2e-5:
            print(f"{name:44} wrong: error {wrong:.1e}", flush=True)
            return False
        turns = take_turns({"ours": ours, "theirs": theirs}, seconds)
    if turns.median(["theirs"], "ours") < below:
        mine, their = turns.fastest().values()
        print(f"{name:44} {mine * 1e6:10.1f} us {their * 1e6:10.1f} us  ratio {turns.ratio(['theirs'], 'ours')}", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=0.4, help="per case")
    parser.add_argument("--only", default="", help="words of the cases' names, separated by commas")
    parser.add_argument("--below", type=float, default=float("inf"), help="print ratios below this one alone")
    options = parser.parse_args()
    os.environ["HOLOGRAM_STRICT"] = "1"  # what cannot be compiled is an error here, not PyTorch's own time
    torch.set_num_threads(options.threads)
    print(f"{options.threads} threads{'':35} {'hologram':>13} {'torch':>13}")
    right = True
    for name, make, kind in cases():
        if any(word in name for word in options.only.split(",")):
            right &= measure(name, make, kind, options.seconds, options.below)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
