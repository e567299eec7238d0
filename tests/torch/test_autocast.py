# tests/torch/test_autocast.py: mixed precision: forward and backward graphs under torch.autocast
import copy

import pytest
import torch
from harness import backend_stats, compile_fresh, module
from test_training import Tiny
from torch import nn

BF16, F16 = torch.bfloat16, torch.float16


@module(first=lambda: nn.Conv2d(3, 8, 3, padding=1), norm=lambda: nn.BatchNorm2d(8), second=lambda: nn.Conv2d(8, 16, 3, stride=2),
        last=lambda: nn.Linear(16, 17))  # fmt: skip
def Convolutions(self, x):
    y = torch.relu(self.second(torch.relu(self.norm(self.first(x)))))
    return self.last(nn.functional.max_pool2d(y, 2).mean((2, 3)))


@module(layer=lambda: nn.LSTM(12, 16, batch_first=True), last=lambda: nn.Linear(16, 17))
def Recurrent(self, x):
    return self.last(self.layer(x)[0][:, -1])


def tokens():
    return torch.randint(0, 17, (4, 11))


MODELS = {
    "transformer": (Tiny, tokens, BF16),
    "convolutions": (Convolutions, lambda: torch.randn(4, 3, 10, 10), F16),
    "recurrent": (Recurrent, lambda: torch.randn(4, 7, 12), BF16),  # of float16 eager has none on the CPU
}


def gradients(function, model, x):
    function(model, x).backward()
    return [p.grad.double() for p in model.parameters()]


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_as_near_as_eagers(name):
    """Beside float64; parameters and gradients stay float32."""
    make, data, dtype = MODELS[name]
    model, x = make(), data()

    def loss(model, x, enabled=True):
        with torch.autocast("cpu", dtype, enabled=enabled):
            y = model(x).flatten(0, -2)
        return 8 * nn.functional.cross_entropy(y, torch.arange(len(y)) % 17)

    exact = gradients(lambda m, x: loss(m, x, False), copy.deepcopy(model).double(), x.double() if x.is_floating_point() else x)
    found = gradients(compile_fresh(loss), model, x)
    try:
        eager = gradients(loss, copy.deepcopy(model), x)
    except RuntimeError as error:  # oneDNN has no bfloat16 LSTM for processors with AVX2 alone
        assert name == "recurrent" and "could not create a primitive" in str(error)
        eager = exact
    for a, b, c in zip(found, eager, exact):
        assert (a - c).norm() <= 1.5 * (b - c).norm() + 0.02 * c.norm() + 1e-3
    assert all(p.grad.dtype is torch.float32 for p in model.parameters())
    assert backend_stats()["failed_graphs"] == 0 and backend_stats()["fallback_ops"] == {}


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_sums_are_of_float32(dtype):
    """4,095 ones: a sum of 16-bit floats stays at 256 or 2,048."""
    layer = nn.Linear(4095, 3, bias=False)
    layer.weight.data.fill_(1)
    x = torch.ones(4095, 4095)

    @compile_fresh
    def function(x):
        with torch.autocast("cpu", dtype):
            return layer(x)

    out = function(x)
    out.backward(torch.ones_like(out))
    nearest = torch.tensor(4095.0).to(dtype)
    assert out.dtype is dtype and (out == nearest).all() and (layer.weight.grad == nearest.float()).all()


CALLS = {
    "attention": (lambda x: nn.functional.scaled_dot_product_attention(x, x, x), BF16, torch.float32),
    "gru": (nn.GRU(8, 8), BF16, torch.float32), "circular": (lambda x: nn.functional.pad(x, (1, 1), "circular"), F16, BF16),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_types_of_eagers(name):
    function, dtype, given = CALLS[name]

    def run(x):
        with torch.autocast("cpu", dtype):
            return function(x)

    x = torch.randn(2, 3, 8, dtype=given)
    torch.testing.assert_close(compile_fresh(run)(x), run(x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("function", [
    lambda x, w: torch.addmm(w[0], x, x), lambda x, w: nn.functional.layer_norm(x, (3,), w[0]), lambda x, w: torch.cross(x, w, -1),
    lambda x, w: nn.functional.linear(x, x, w[0]), torch.heaviside, torch.cdist,
])  # fmt: skip
def test_types_that_eager_does_not_mix_are_errors(function):
    operands = torch.randn(3, 3), torch.randn(3, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError) as error:
        function(*operands)
    with pytest.raises(RuntimeError) as found:
        compile_fresh(function)(*operands)
    assert str(found.value).splitlines()[0] == str(error.value).splitlines()[0]
