# hologram_torch/quantized/layers.py: layers whose weights are numbers of 8 and 4 bits
import torch
import torch.nn.functional as F

from . import numbers


class Quantized(torch.nn.Module):
    """What these layers share: `values` and `scales` as `numbers` makes them; `weight` is what they stand for."""

    def __init__(self, stored):
        super().__init__()
        values, scales = stored
        self.register_buffer("values", values)
        self.register_buffer("scales", scales)

    @property
    def weight(self):
        """The weight in its own dtype, made anew by each use."""
        return numbers.scaled(self.values, self.scales, self.scales.dtype)

    @property
    def bits(self):
        return 8 if self.values.dtype == torch.int8 else 4


class WeightLinear(Quantized):
    """A linear layer with a narrow weight; activations stay as they are."""

    def __init__(self, stored, bias, in_features):
        super().__init__(stored)
        self.register_parameter("bias", bias)
        self.in_features, self.out_features = in_features, stored[0].shape[0]

    def forward(self, x):
        return F.linear(x, numbers.scaled(self.values, self.scales, x.dtype), self.bias)

    def extra_repr(self):
        group = self.in_features // self.scales.shape[1]
        return (f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
                f"bits={self.bits}, group={group}")  # fmt: skip


class DynamicLinear(WeightLinear):
    """A product of bytes: each row of the activations has a step and a zero point of its own."""

    def forward(self, x):
        rows = x.reshape(-1, self.in_features).float()
        return self.product(*self.bytes_of(rows)).to(x.dtype).view(*x.shape[:-1], self.out_features)

    def bytes_of(self, rows):
        return numbers.rows_to_bytes(rows)

    def product(self, q, step, zero):
        sums = torch._int_mm(q, self.values.t()) - zero.to(torch.int32) * self.values.sum(1, dtype=torch.int32)
        y = sums.float() * (step * self.scales.float().t())
        return y if self.bias is None else y + self.bias.float()


class StaticLinear(DynamicLinear):
    """A product of bytes: one step and zero point for all activations, of the range that calibration saw."""

    def __init__(self, stored, bias, in_features, observed):
        super().__init__(stored, bias, in_features)
        self.register_buffer("step", observed[0].float())
        self.register_buffer("zero", observed[1].float())

    def bytes_of(self, rows):
        return numbers.rounded(rows, self.step, self.zero), self.step, self.zero


class WeightEmbedding(Quantized):
    """An embedding with a narrow weight: rows are found, then scaled."""

    def __init__(self, stored, embedding):
        super().__init__(stored)
        self.num_embeddings, self.embedding_dim = embedding.weight.shape
        self.padding_idx = embedding.padding_idx

    def forward(self, ids):
        return numbers.scaled(F.embedding(ids, self.values), F.embedding(ids, self.scales), self.scales.dtype)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}, bits={self.bits}, group={self.embedding_dim // self.scales.shape[1]}"
