# hologram_torch/quantized/convolutions.py: convolutions whose weights, and images, are bytes
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401: defines the operators
import torch.nn.functional as F

from . import numbers
from .layers import Quantized

_FUNCTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_LEAST = 2.0**-100  # step of an image of zeros


class WeightConv(Quantized):
    """A convolution with a weight of bytes, unpacked once: fast convolutions (Winograd's, depthwise loops) read a weight that they have
    laid out ahead. `values` has a row for each result."""

    def __init__(self, stored, layer):
        super().__init__(stored)
        self.register_parameter("bias", layer.bias)
        self.shape, self.stride, self.dilation, self.groups = layer.weight.shape, layer.stride, layer.dilation, layer.groups
        self.border = list(layer._reversed_padding_repeated_twice)
        self.padding = layer.padding if layer.padding_mode == "zeros" else 0
        self.mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        self.unpack()

    def unpack(self):
        """The weight for the convolution, made of what is stored; state dicts are without it."""
        self.register_buffer("unpacked", self.weight, persistent=False)
        self.register_load_state_dict_post_hook(WeightConv._loaded)

    def _loaded(self, incompatible):
        self.unpacked = self.weight

    @property
    def weight(self):
        return numbers.scaled(self.values, self.scales, self.scales.dtype).view(self.shape)  # Dynamo traces no super() of properties

    def forward(self, x):
        image = x if self.mode == "constant" else self.padded(x)
        weight, function = self.unpacked.to(x.dtype), _FUNCTIONS[len(self.shape) - 2]
        return function(image, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def padded(self, x):
        return F.pad(x, self.border, self.mode) if any(self.border) else x

    def convolved(self, x, weight, bias):
        return _FUNCTIONS[len(self.shape) - 2](x, weight, bias, self.stride, 0, self.dilation, self.groups)

    def extra_repr(self):
        return f"{list(self.shape)}, stride={self.stride}, border={self.border}, dilation={self.dilation}, groups={self.groups}, bits=8"


class DynamicConv(WeightConv):
    """Products of bytes; one range for the images of a call."""

    def unpack(self):
        """Nothing is."""

    def ranges(self, x):
        return torch.ops.quantized_decomposed.choose_qparams.tensor(x, 0, 255, _LEAST, torch.uint8)

    def forward(self, x):
        ops = torch.ops.quantized_decomposed
        image = self.padded(x.float())
        parameters = (*self.ranges(x.float()), 0, 255, torch.uint8)  # a border adds no number: 0 is in every range
        image = ops.dequantize_per_tensor.tensor(ops.quantize_per_tensor.tensor(image, *parameters), *parameters)
        weight = ops.dequantize_per_channel(self.values.view(self.shape), self.scales.float()[:, 0], None, 0, -128, 127, torch.int8)
        return self.convolved(image, weight, None if self.bias is None else self.bias.float()).to(x.dtype)


class StaticConv(DynamicConv):
    """Products of bytes; one range for all images, which calibration saw."""

    def __init__(self, stored, layer, observed):
        super().__init__(stored, layer)
        self.register_buffer("step", observed[0].float().clamp(min=_LEAST))
        self.register_buffer("zero", observed[1].float())

    def ranges(self, x):
        return self.step, self.zero.to(torch.int64)
