# tests/torch/test_quantize.py: models with weights and activations of 8 and 4 bits
import copy
import io

import numpy as np
import pytest
import torch
from checks import refuses
from harness import module
from torch import nn
from torch.nn import functional as F

hologram_torch = pytest.importorskip("hologram_torch")
import hologram  # noqa: E402
from hologram_torch import quantize  # noqa: E402
from hologram_torch.quantized import numbers  # noqa: E402

MODES = ("dynamic-int8", "static-int8", "weight-int8", "weight-int4")
pytestmark = pytest.mark.usefixtures("strict")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 64)
        self.a, self.norm, self.b = nn.Linear(64, 96), nn.LayerNorm(96), nn.Linear(96, 64, bias=False)
        self.out = nn.Linear(64, 50)
        self.out.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        return self.out(x + self.b(nn.functional.gelu(self.norm(self.a(x)))))


IDS = torch.arange(40).reshape(2, 20)


def make(mode, model=None, **more):
    model = model or Net().eval()
    if mode == "static-int8":
        more["calibrate"] = [IDS]
    return model, quantize(model, mode, **more)


def apart(got, want):
    return float((got - want).norm() / want.norm())


# How far results are from float32's, and an upper bound on the weights' bytes beside float32's.
CLOSE = {"dynamic-int8": (0.02, 0.27), "static-int8": (0.02, 0.27), "weight-int8": (0.015, 0.27), "weight-int4": (0.2, 0.16)}


@pytest.mark.parametrize("mode", MODES)
@torch.no_grad()
def test_a_model_computes_the_same_in_eager_compiled_and_frozen(mode):
    model, narrow = make(mode)
    hologram_torch.reset_stats()
    cases = [(IDS[:1, :1], hologram_torch.freeze(narrow, (IDS[:1, :1],)))]
    if mode in ("dynamic-int8", "weight-int4"):
        cases.append((IDS, torch.compile(narrow, backend="hologram", dynamic=False)))
    for ids, run in cases:
        want = narrow(ids)
        assert 0 < apart(want, model(ids)) < CLOSE[mode][0]
        torch.testing.assert_close(run(ids), want, rtol=1e-4, atol=1e-4)
    assert not hologram_torch.stats()["fallback_ops"]


def stored(model):
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file


@pytest.mark.parametrize("mode", MODES)
@torch.no_grad()
def test_state_dicts_and_archives(mode, tmp_path):
    def ranges(calibrate):
        return {"calibrate": calibrate} if mode == "static-int8" else {}

    model, x = Layers(), torch.randint(200, (3, 12))
    narrow = quantize(model, mode, **ranges([x]))
    file = stored(narrow)
    linear = model.out.weight.numel()
    others = sum(p.numel() for p in model.parameters()) - linear
    limit = 4 * (CLOSE[mode][1] * linear + CLOSE["weight-int8"][1] * others) + 6000  # what is no product has bytes in every mode
    assert file.tell() < limit + 6000
    other = quantize(Layers(), mode, **ranges(()))
    file.seek(0)
    other.load_state_dict(torch.load(file), strict=True)
    assert torch.equal(other(x), narrow(x)) and not torch.equal(narrow(x), model(x))
    report = hologram_torch.export(other, (x,), tmp_path / "m.holo", isas=())
    # Convolutions that keep their images lie in archives as they are computed with.
    unpacked = 4 * sum(m.unpacked.numel() for m in narrow.modules() if hasattr(m, "unpacked"))
    assert report.tensor_bytes < limit + unpacked
    got = hologram.load(tmp_path / "m.holo")(x.numpy())
    # eager's sums may round an activation to the other of two bytes
    np.testing.assert_array_equal(got, hologram_torch.freeze(narrow, (x,))(x).numpy())
    assert apart(torch.from_numpy(got), narrow(x)) < 1e-3


@module(words=lambda: nn.Embedding(200, 64), apart=lambda: nn.Conv1d(64, 64, 3, groups=64, padding=1),
        mixed=lambda: nn.Conv1d(64, 128, 3, padding=1), out=lambda: nn.Linear(128, 256))  # fmt: skip
def Layers(self, ids):
    """One of each kind that quantize() changes."""
    x = self.apart(self.words(ids).transpose(1, 2)).relu()
    return self.out(self.mixed(x).transpose(1, 2))


@torch.no_grad()
def test_the_model_given_stays_and_shares_what_is_not_quantised():
    model, narrow = make("weight-int8")
    assert type(model.a) is nn.Linear and narrow.norm.weight is model.norm.weight and narrow.a.bias is model.a.bias
    assert narrow.out.values is narrow.words.values  # one weight, stored once
    assert all(not b._is_view() for b in narrow.buffers())  # views' memory is compared at each call
    torch.testing.assert_close(narrow.a.weight, model.a.weight, rtol=0, atol=float(model.a.weight.abs().max()) / 250)


@pytest.mark.parametrize("mode, close", [("dynamic-int8", 0.03), ("static-int8", 0.03), ("weight-int4", 0.015)])
@torch.no_grad()
def test_convolutions(mode, close):
    model = nn.Sequential(
        nn.Conv2d(3, 32, 5, 2, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, padding="same", padding_mode="reflect", bias=False), nn.GELU(),
        nn.Conv2d(32, 32, 3, groups=32, padding=1), nn.Flatten(2), nn.Conv1d(32, 32, 3, dilation=2),
    ).eval()  # fmt: skip
    x = torch.randn(2, 3, 20, 24)
    narrow = quantize(model, mode, **({"calibrate": [x]} if mode == "static-int8" else {}))
    of_bytes = [type(m).__name__ != "WeightConv" for m in narrow if "Conv" in type(m).__name__]
    some = mode != "weight-int4"
    assert of_bytes == [some, some, False, mode == "static-int8"]  # the last: few results
    hologram_torch.reset_stats()
    whole = torch.compile(narrow, backend="hologram", fullgraph=True, dynamic=False)
    assert apart(whole(x), narrow(x)) < 1e-3
    want, frozen = narrow(x), hologram_torch.freeze(narrow, (x,))
    assert 0 < apart(want, model(x)) < close and apart(frozen(x), want) < 1e-3
    assert not hologram_torch.stats()["fallback_ops"]
    assert apart(narrow(0 * x), model(0 * x)) < close


def test_what_is_skipped():
    def kinds(**options):
        narrow = quantize(Net(), "dynamic-int8", **options)
        return [type(getattr(narrow, n)).__name__ for n in ("words", "a", "b", "out")]

    assert kinds() == ["WeightEmbedding", "DynamicLinear", "DynamicLinear", "DynamicLinear"]
    assert kinds(skip=("a", "wor*")) == ["Embedding", "Linear", "DynamicLinear", "DynamicLinear"]
    assert kinds(skip=lambda name, m: isinstance(m, nn.Linear)) == ["WeightEmbedding", "Linear", "Linear", "Linear"]
    assert type(quantize(nn.Linear(8, 8), "weight-int4")).__name__ == "WeightLinear"
    assert quantize(nn.Linear(9, 8), "weight-int4").bits == 8  # rows of odd length
    attention = quantize(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), "dynamic-int8")
    assert type(attention.self_attn.out_proj) is not nn.Linear and attention(torch.randn(1, 3, 16)).shape == (1, 3, 16)


@pytest.mark.parametrize("arguments, error", [
    (("int8",), "mode: expected one of dynamic-int8, static-int8, weight-int8, weight-int4, got 'int8'"),
    (("static-int8",), "calibrate: expected inputs for 'static-int8', got None"),
    (("dynamic-int8", 32), "group: expected None or, for weights alone, a number from 2 on, got 32"),
])  # fmt: skip
def test_wrong_arguments(arguments, error):
    mode, *group = arguments
    refuses(ValueError, error, lambda: quantize(nn.Linear(8, 8), mode, group=group[0] if group else None))
    refuses(TypeError, "quantize: model: expected a torch.nn.Module, got str", lambda: quantize("model", mode))


def test_a_layer_that_calibration_does_not_reach():
    model = nn.ModuleDict({"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)})
    with pytest.raises(ValueError, match="reached 1 of 2 layers, not 'b'"):
        quantize(model, "static-int8", calibrate=lambda m: m["a"](torch.randn(2, 8)))
    for calibrate, error in ((5, TypeError), ([None], TypeError), ([torch.full((2, 8), torch.nan)], ValueError)):
        refuses(error, "quantize: calibrate: ", lambda: quantize(model["a"], "static-int8", calibrate=calibrate))
    assert not model["a"]._forward_pre_hooks
    assert all(type(quantize(nn.Linear(0, 8), mode)) is nn.Linear for mode in ("dynamic-int8", "weight-int8", "weight-int4"))


@pytest.mark.parametrize("mode, dtype", [("dynamic-int8", torch.bfloat16), ("weight-int4", torch.float16)])
@torch.no_grad()
def test_narrow_floats(mode, dtype):
    model = copy.deepcopy(Net()).to(dtype).eval()
    narrow = quantize(model, mode)
    want = narrow(IDS)
    assert want.dtype == dtype and apart(want.float(), model(IDS).float()) < CLOSE[mode][0] + 0.02
    got = torch.compile(narrow, backend="hologram")(IDS)
    assert got.dtype == dtype and apart(got.float(), want.float()) < 0.03


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["weight-int8", "weight-int4"])
@torch.no_grad()
def test_few_rows_of_16_bits_round_once(mode, dtype):
    layer = quantize(nn.Linear(192, 80).to(dtype), mode)
    weight = numbers.scaled(layer.values, layer.scales.double(), torch.float64)
    compiled = torch.compile(layer, backend="hologram", dynamic=False)
    for rows in (1, 8):
        x = torch.randn(rows, 192).to(dtype)
        want = F.linear(x.double(), weight, layer.bias.double())
        bound = torch.finfo(dtype).eps / 2 * want.abs() + 2**-14 * x.double().abs().amax(1, True) * weight.abs().sum(1)
        assert ((compiled(x) - want).abs() <= bound).all()


@torch.no_grad()
def test_rows_of_anything():
    layer = quantize(nn.Linear(16, 8, bias=False), "dynamic-int8")
    x = torch.randn(6, 16)
    x[0], x[1], x[2, 3], x[3] = 0, 5, float("nan"), x[4] * 1e-20
    for got in (layer(x), torch.compile(layer, backend="hologram")(x)):
        assert torch.equal(got[0], torch.zeros(8)) and got[2].isnan().all()
        torch.testing.assert_close(got[3] * 1e20, got[4], rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(got[1], 5 * layer.weight.sum(1), rtol=1e-3, atol=1e-3)
    assert layer(torch.randn(0, 16)).shape == (0, 8) and layer(torch.randn(16)).shape == (8,)
