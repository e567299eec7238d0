# hologram_torch/quantized/__init__.py: quantize(): a model with weights and activations of 8 and 4 bits
import copy
import fnmatch
import math

import torch
from hologram._quantised import pays

from . import layers, numbers
from .calibration import observe

MODES = ("dynamic-int8", "static-int8", "weight-int8", "weight-int4")


def quantize(model, mode, *, group=None, skip=(), calibrate=None):
    """A copy of `model` whose linear layers, convolutions and embeddings compute with 8 or 4 bits; what else it holds stays, and
    parameters that stay are shared with the model given.

    mode: "dynamic-int8": weights of bytes with a scale for each result, activations with a range of each row, found in the call;
    "static-int8": one range for a layer's activations, found by `calibrate` (what lies beyond, infinite too, counts as its end, NaN as
    its beginning: so it is in PyTorch and ONNX Runtime); "weight-int8" and "weight-int4": weights alone, which
    products read as they are. Convolutions have bytes in every mode, their images one range for a call or, static, for all calls;
    where float32 is faster (in groups, as a rule, or of few results) and in the modes for weights alone the images stay as they are and
    the weight is unpacked once. Embeddings have bytes with a scale for each row; in
    "weight-int4" one whose weight is a linear layer's too shares that one's halves of bytes.
    group: neighbours in a row of a weight that share a scale, in the modes for weights alone; None: the whole row, and 64 for
    halves of bytes. The largest divisor of the row's length up to that counts; a row of odd length has bytes.
    skip: names of modules as in named_modules(), with * and ? (what is below them is skipped too), or a function of name and module.
    calibrate: for "static-int8" an iterable of the model's arguments (a tensor, a tuple of positional or a dict of keyword
    arguments), or a function that is called with the model; () makes a model for load_state_dict.

    → the quantised model, for inference: eager, compiled, frozen or exported. Its state_dict has `values` and `scales` in place of
    a `weight`.

    Layers of exactly the types Linear, Conv1d … Conv3d, Embedding and transformers' Conv1D count; one that norms its rows (max_norm)
    stays.
    Raises TypeError and ValueError for wrong arguments, ValueError for a layer that calibration did not reach.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"quantize: model: expected a torch.nn.Module, got {type(model).__name__}")
    if mode not in MODES:
        raise ValueError(f"quantize: mode: expected one of {', '.join(MODES)}, got {mode!r}")
    if group is not None and (not mode.startswith("weight") or type(group) is not int or group < 2):
        raise ValueError(f"quantize: group: expected None or, for weights alone, a number from 2 on, got {group!r} for {mode!r}")
    if (calibrate is not None) != (mode == "static-int8"):
        raise ValueError(f"quantize: calibrate: expected {'inputs' if calibrate is None else 'None'} for {mode!r}, got {calibrate!r}")
    found = {name: layer for name, layer in model.named_modules() if _takes(layer) and not _skipped(name, layer, skip)}
    ranges = observe(model, {n: m for n, m in found.items() if _kind(m) != "Embedding"}, calibrate) if calibrate is not None else {}
    maker, memo = _Maker(mode, group, found.values()), {id(p): p for p in model.parameters()}
    for name, layer in found.items():
        memo[id(layer)] = maker.layer(layer, ranges.get(name))
    return copy.deepcopy(model, memo)


def _kind(layer):
    """Name of the layer's type where it is one whose arithmetic is known; subclasses may compute anything."""
    kind = type(layer)
    of = kind.__module__
    if of.startswith("torch.nn.modules") or (of.startswith("transformers.") and kind.__name__ == "Conv1D"):
        return kind.__name__
    return None


def _takes(layer):
    return _KINDS.get(_kind(layer)) and layer.weight.numel()  # an empty weight has no range


def _skipped(name, layer, skip):
    if callable(skip):
        return skip(name, layer)
    patterns = (skip,) if isinstance(skip, str) else skip
    return any(fnmatch.fnmatchcase(name, p) or fnmatch.fnmatchcase(name, f"{p}.*") for p in patterns)


class _Maker:
    """Layers of a mode; a weight that several share is stored once."""

    def __init__(self, mode, group, found):
        self.mode, self.group, self.made = mode, group, {}
        self.multiplied = {id(layer.weight) for layer in found if _kind(layer) != "Embedding"}

    def layer(self, layer, observed):
        made = _KINDS[_kind(layer)](self, layer, observed)
        made.train(layer.training)
        return made

    def stored(self, weight, halves, group):
        """The parameter's numbers as `numbers` stores them; `weight` may be a view of it."""
        key = (weight.data_ptr(), weight.shape, weight.stride(), weight.device, halves, group)
        if weight.device.type == "meta" or key not in self.made:
            depth = weight.shape[1]
            size = numbers.groups_of(depth, group or depth)
            self.made[key] = (numbers.to_halves if halves else numbers.to_bytes)(weight, size)
        return self.made[key]

    def linear(self, layer, observed):
        weight = layer.weight.t() if type(layer).__name__ == "Conv1D" else layer.weight
        depth = weight.shape[1]
        if self.mode.startswith("weight") or depth > numbers.DEEPEST:
            halves = self._halves(depth)
            return layers.WeightLinear(self.stored(weight, halves, self._group(halves)), layer.bias, depth)
        stored = self.stored(weight, False, None)
        if self.mode == "static-int8":
            return layers.StaticLinear(stored, layer.bias, depth, observed)
        return layers.DynamicLinear(stored, layer.bias, depth)

    def embedding(self, layer, observed):
        if layer.max_norm is not None:
            return layer
        halves = id(layer.weight) in self.multiplied and self._halves(layer.embedding_dim)
        return layers.WeightEmbedding(self.stored(layer.weight, halves, self._group(halves)), layer)

    def convolution(self, layer, observed):
        from . import convolutions

        results, channels, *taps = layer.weight.shape
        stored = self.stored(layer.weight.detach().flatten(1), False, None)
        taps, strides, dynamic = math.prod(taps), math.prod(layer.stride), self.mode == "dynamic-int8"
        if self.mode.startswith("weight") or not pays(results // layer.groups, channels * taps, taps, strides, dynamic):
            return convolutions.WeightConv(stored, layer)
        if self.mode == "static-int8":
            return convolutions.StaticConv(stored, layer, observed)
        return convolutions.DynamicConv(stored, layer)

    def _halves(self, depth):
        return self.mode == "weight-int4" and depth % 2 == 0

    def _group(self, halves):
        return self.group or (64 if halves else None)


_KINDS = {"Linear": _Maker.linear, "Conv1D": _Maker.linear, "Embedding": _Maker.embedding,
          "Conv1d": _Maker.convolution, "Conv2d": _Maker.convolution, "Conv3d": _Maker.convolution}  # fmt: skip
