#!/usr/bin/env python3
# bench/quantized.py: convolution layers of quantised graphs against float32, oneDNN and eager PyTorch, in one process
"""Each case is one convolution of bytes as PyTorch's quantiser writes it: dequantised image and weight (a scale for each
result), bias, ReLU, quantised result. Checked against exact sums, then timed in turns (turns.py): the fastest turns in us, then
the median ratio of each peer's time to ours, with quartiles.

    python bench/quantized.py [--threads 2] [--seconds 0.4] [--only WORD] [--zero 0]

ours    frozen (hologram_torch.freeze), a product of bytes; images of all sides lie channels last
float   the same graph frozen with a product of dequantised numbers
oneDNN  torch.ops.onednn.qconv_pointwise called with packed weights, what Inductor calls
eager   the graph as it is
"""

import argparse
import os
import sys

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401: defines the operators
import torch.nn.functional as F

import hologram_torch
from hologram import _quantised
from turns import take_turns

ops = torch.ops.quantized_decomposed
# Batch, channels, results, size, taps, stride, padding, groups.
CASES = {
    "1x1 64>256 56": (1, 64, 256, 56, 1, 1, 0, 1),
    "1x1 256>64 56": (1, 256, 64, 56, 1, 1, 0, 1),
    "1x1 512>128 28": (1, 512, 128, 28, 1, 1, 0, 1),
    "1x1 1024>256 14": (1, 1024, 256, 14, 1, 1, 0, 1),
    "1x1 2048>512 7": (1, 2048, 512, 7, 1, 1, 0, 1),
    "1x1/2 256>512 56": (1, 256, 512, 56, 1, 2, 0, 1),
    "3x3 64>64 56": (1, 64, 64, 56, 3, 1, 1, 1),
    "3x3 128>128 28": (1, 128, 128, 28, 3, 1, 1, 1),
    "3x3 256>256 14": (1, 256, 256, 14, 3, 1, 1, 1),
    "3x3 512>512 7": (1, 512, 512, 7, 3, 1, 1, 1),
    "3x3/2 128>128 56": (1, 128, 128, 56, 3, 2, 1, 1),
    "3x3 64>64 56 x8": (8, 64, 64, 56, 3, 1, 1, 1),
    "7x7/2 3>64 224": (1, 3, 64, 224, 7, 2, 3, 1),
    "3x3/2 3>32 224": (1, 3, 32, 224, 3, 2, 1, 1),
    "grouped4 3x3 128>128 28": (1, 128, 128, 28, 3, 1, 1, 4),
    "grouped32 3x3 128>128 56": (1, 128, 128, 56, 3, 1, 1, 32),
}


class Layer(torch.nn.Module):
    def __init__(self, case, zero):
        super().__init__()
        _, channels, out, _, taps, self.stride, self.padding, self.groups = case
        self.zero = zero
        self.register_buffer("weight", torch.randint(-127, 128, (out, channels // self.groups, taps, taps), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(out) / 500 + 0.001)
        self.register_buffer("zeros", torch.zeros(out, dtype=torch.int64))
        self.register_buffer("bias", torch.randn(out))
        self.out_scale = 0.03 * 0.001 * 5000

    def quantised(self, y):
        return ops.quantize_per_tensor(torch.relu(y), self.out_scale, 0, 0, 255, torch.uint8)

    def forward(self, x):
        x = ops.dequantize_per_tensor(x, 0.03, self.zero, 0, 255, torch.uint8)
        w = ops.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
        return self.quantised(F.conv2d(x, w, self.bias, self.stride, self.padding, 1, self.groups))

    def exact(self, x):
        y = F.conv2d(x.double() - self.zero, self.weight.double(), None, self.stride, self.padding, 1, self.groups)
        return self.quantised(y.float() * 0.03 * self.scales.view(-1, 1, 1) + self.bias.view(-1, 1, 1))


def onednn(layer, x):
    """A call of oneDNN's kernel, its weights packed ahead."""
    own, two = torch.ops.onednn, [1, 1]
    stride, padding = [layer.stride] * 2, [layer.padding] * 2
    weight = own.qconv_prepack(layer.weight, layer.scales, 0.03, layer.zero, stride, padding, two, layer.groups, list(x.shape))
    zeros = torch.zeros(layer.scales.numel(), dtype=torch.int32)
    return lambda: own.qconv_pointwise(x, 0.03, layer.zero, weight, layer.scales, zeros, layer.bias, stride, padding, two,
                                       layer.groups, layer.out_scale, 0, torch.uint8, "relu", [], "")  # fmt: skip


def compiled(layer, bytes_):
    """The layer through torch.compile; without `bytes_`, as if no convolution were one of bytes."""
    least = _quantised.LEAST_RESULTS
    _quantised.LEAST_RESULTS = least if bytes_ else 1 << 40
    try:
        torch._dynamo.reset()
        return hologram_torch.freeze(layer, (layer.example,))
    finally:
        _quantised.LEAST_RESULTS = least


def is_of_bytes(case) -> bool:
    """Whether it is long and wide enough for a product of bytes, whose sums are exact."""
    _, channels, out, _, taps, _, _, groups = case
    return out // groups >= _quantised.LEAST_RESULTS and channels // groups * taps**2 >= _quantised.LEAST_DEPTH


def measure(name, case, zero, seconds) -> bool:
    torch.manual_seed(0)
    layer = Layer(case, zero).eval()
    x = torch.randint(0, 256, (case[0], case[1], case[3], case[3]), dtype=torch.uint8).to(memory_format=torch.channels_last)
    layer.example = x
    ours, floats = compiled(layer, True), compiled(layer, False)
    calls = {"ours": lambda: ours(x), "float": lambda: floats(x), "onednn": onednn(layer, x), "eager": lambda: layer(x)}
    want = layer.exact(x).int()
    for who, call in calls.items():
        apart = (call().int() - want).abs()
        if apart.max() > (0 if who == "ours" and is_of_bytes(case) else 1):
            print(f"{name:28} wrong: {who} {apart.max()} apart in {int((apart > 0).sum())} places", flush=True)
            return False
    turns = take_turns(calls, seconds)
    fastest = "".join(f"{1e6 * t:9.1f}" for t in turns.fastest().values())
    ratios = "  ".join(f"{peer} {turns.ratio([peer], 'ours')}" for peer in calls if peer != "ours")
    print(f"{name:28}{fastest}  {ratios}", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=0.4, help="per case")
    parser.add_argument("--only", default="", help="words of the cases' names, separated by commas")
    parser.add_argument("--zero", type=int, default=0, help="the image's zero point")
    options = parser.parse_args()
    os.environ["HOLOGRAM_STRICT"] = "1"
    torch.set_num_threads(options.threads)
    print(f"{options.threads} threads{'':19}{'ours':>9}{'float':>9}{'oneDNN':>9}{'eager':>9}")
    right = True
    with torch.no_grad():
        for name, case in CASES.items():
            if any(word in name for word in options.only.split(",")):
                right &= measure(name, case, options.zero, options.seconds)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
