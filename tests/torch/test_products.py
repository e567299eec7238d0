# tests/torch/test_products.py: products through torch.compile that other tests do not reach
import pytest
import torch
import torch.nn.functional as F

hologram_torch = pytest.importorskip("hologram_torch")


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setenv("HOLOGRAM_STRICT", "1")


def compiled(function, dynamic=False):
    torch._dynamo.reset()
    return torch.compile(function, backend=hologram_torch.hologram, dynamic=dynamic)


@pytest.mark.parametrize("m, n, k", [(1, 40, 33), (17, 64, 64), (100, 70, 260)])
def test_bytes_summed_in_words(m, n, k):
    x, w = (torch.randint(-128, 128, s, dtype=torch.int8) for s in ((m, k), (n, k)))
    exact = x.long() @ w.long().t()
    assert torch.equal(compiled(lambda x, w: torch._int_mm(x, w.t()))(x, w).long(), exact)
    assert torch.equal(compiled(lambda x, w: torch._int_mm(x, w))(x, w.t().contiguous()).long(), exact)
    layer = torch.nn.Module()
    layer.register_buffer("w", w)
    layer.forward = lambda x: torch._int_mm(x, layer.w.t()) + 1
    assert torch.equal(compiled(layer)(x).long(), exact + 1)


BYTES = ((torch.uint8, torch.int8), (torch.int8, torch.uint8), (torch.uint8, torch.uint8))


@pytest.mark.parametrize("left, right", BYTES)
@pytest.mark.parametrize("m, n, k", [(1, 40, 33), (17, 64, 64), (100, 70, 260), (40, 1, 37)])
def test_bytes_of_either_sign(m, n, k, left, right):
    x, w = (torch.randint(-128, 128, s, dtype=torch.int8).view(t) for s, t in (((m, k), left), ((n, k), right)))
    exact = x.long() @ w.long().t()
    assert torch.equal(compiled(lambda x, w: x.int() @ w.int().t())(x, w).long(), exact)
    layer = torch.nn.Module()
    layer.register_buffer("w", w)
    layer.forward = lambda x: x.int() @ layer.w.t().int() + 1
    assert torch.equal(compiled(layer)(x).long(), exact + 1)
    if right == torch.int8:
        assert torch.equal(compiled(lambda x, w: torch._int_mm(x, w.t()))(x, w).long(), exact)


@pytest.mark.parametrize("m, n, k", [(1, 40, 33), (17, 64, 64), (100, 70, 400)])
def test_bfloat16_sums_in_float32_and_rounds_once(m, n, k):
    layer = torch.nn.Linear(k, n).bfloat16().requires_grad_(False)
    x = torch.randn(m, k).bfloat16()
    exact = (x.double() @ layer.weight.double().t()).bfloat16() + layer.bias
    for got in (compiled(layer)(x), compiled(lambda x, w, b: x @ w.t() + b)(x, layer.weight, layer.bias)):
        torch.testing.assert_close(got, exact, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_layer_rounds_product_and_bias_together(dtype):
    """addmm is one operator: its sum has no rounding before the bias, as in eager."""
    layer = torch.nn.Linear(64, 48).to(dtype).requires_grad_(False)
    x = torch.randn(32, 64).to(dtype)
    exact = (x.double() @ layer.weight.double().t() + layer.bias.double()).to(dtype)
    apart = (compiled(layer)(x) != exact).double().mean()
    assert apart < 0.01  # what float32 sums next to a halfway case change
    twice = ((x.double() @ layer.weight.double().t()).to(dtype) + layer.bias != exact).double().mean()
    assert twice > 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(70,), (3, 40)])
def test_rows_taken_by_their_numbers(shape, dynamic, dtype):
    x, w = torch.randn(50, 96, dtype=dtype), torch.randn(64, 96, dtype=dtype)
    indices = torch.randint(-50, 50, shape)

    def function(x, w, indices):
        return F.linear(x[indices], w).relu()

    got = compiled(function, dynamic)(x, w, indices)
    exact = F.linear(x[indices].double(), w.double()).relu()
    torch.testing.assert_close(got, exact.to(dtype), rtol=2e-5 if dtype == torch.float32 else 2**-7, atol=1e-4)
    if not dynamic:
        (graph,) = hologram_torch.explain(function, x, w, indices).graphs
        assert not any("take" in kernel["name"] for kernel in graph.kernels())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("ends", [[0, 2, 2, 3], [3, 3], [0, 7, 40, 40, 71], [16, 32, 33]])
def test_groups_of_rows(ends, dynamic, dtype):
    """As mixtures of experts multiply: few rows one by one, others in blocks; groups may be empty."""
    x, w = torch.randn(ends[-1], 64, dtype=dtype), torch.randn(len(ends), 48, 64, dtype=dtype)

    def function(x, w, ends):
        return torch._grouped_mm(x, w.transpose(1, 2), offs=ends)

    hologram_torch.reset_stats()
    got = compiled(function, dynamic)(x, w, torch.tensor(ends, dtype=torch.int32))
    exact = torch.cat([x[a:b].double() @ w[i].double().t() for i, (a, b) in enumerate(zip([0, *ends], ends))])
    torch.testing.assert_close(got, exact.to(dtype), rtol=2e-5 if dtype == torch.float32 else 2**-7, atol=1e-4)
    assert hologram_torch.stats()["fallback_ops"] == {}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("rows, columns", [(5, 7), (300, 400), (64, 1)])
def test_a_matrix_times_a_vector(rows, columns, dynamic):
    w, v, b = torch.randn(rows, columns), torch.randn(columns), torch.randn(rows)
    for function in (
        lambda w, v, b: torch.mv(w, v),
        lambda w, v, b: torch.addmv(b, w, v).relu(),
        lambda w, v, b: w @ v[:, None] + b[:, None],
        lambda w, v, b: torch.bmm(w[None].expand(3, -1, -1), v[None, :, None].expand(3, -1, -1)) * b[:, None],
    ):
        exact = function(w.double(), v.double(), b.double())
        torch.testing.assert_close(compiled(function, dynamic)(w, v, b), exact.float(), rtol=1e-4, atol=1e-4)


class Quantised(torch.nn.Module):
    """A linear layer with weights of 8 or 4 bits, written in plain operations."""

    def __init__(self, n, k, bits, group=None):
        super().__init__()
        self.bits, self.group = bits, group
        low, high = {8: (-128, 128), 4: (0, 256)}[bits]
        self.register_buffer("q", torch.randint(low, high, (n, k * bits // 8), dtype=(torch.int8, torch.uint8)[bits == 4]))
        self.register_buffer("s", torch.rand(n, k // (group or k)) / 100)
        self.register_buffer("z", torch.rand(n, k // (group or k)) / 100)

    def forward(self, x):
        n, q = self.q.shape[0], self.q
        if self.bits == 4:
            q = torch.stack((q & 15, q >> 4), -1)
        w = q.view(n, self.s.shape[1], -1).to(x.dtype) - (8 if self.bits == 4 else 0)
        w = w * self.s.to(x.dtype)[:, :, None] + self.z.to(x.dtype)[:, :, None]
        return x @ w.view(n, -1).t() + 1


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("m, n, k, group", [(1, 256, 1024, 128), (3, 139, 320, 32), (1, 80, 400, 400), (40, 128, 256, 64)])
def test_weights_of_few_bits_stay_so(m, n, k, group, bits):
    layer, x = Quantised(n, k, bits, group), torch.randn(m, k)
    function = compiled(layer)
    for _ in range(2):
        exact = layer.double()(x.double())
        layer.float()
        torch.testing.assert_close(function(x), exact.float(), rtol=1e-4, atol=1e-4)
        layer.q += 3  # is noticed


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("m", [1, 5, 33])
def test_pytorchs_packed_weights(m, dtype):
    n, k, group = 128, 256, 32
    x = torch.randn(m, k, dtype=dtype)
    bound = {"rtol": 2**-6, "atol": 2**-6} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
    w, s = torch.randint(-128, 128, (n, k), dtype=torch.int8), torch.rand(n, dtype=dtype) / 100
    exact = (x.double() @ w.double().t() * s.double()).to(dtype)
    torch.testing.assert_close(compiled(torch._weight_int8pack_mm)(x, w, s), exact, **bound)
    q = torch.randint(0, 16, (n, k), dtype=torch.int32)
    sz = torch.rand(k // group, n, 2, dtype=dtype) / 10
    wide = sz.double().repeat_interleave(group, 0)
    exact = (x.double() @ ((q.t().double() - 8) * wide[..., 0] + wide[..., 1])).to(dtype)
    packed = torch._convert_weight_to_int4pack_for_cpu(q, 1)
    layer = torch.nn.Module()
    layer.register_buffer("w", packed)
    layer.forward = lambda x: torch._weight_int4pack_mm_for_cpu(x, layer.w, group, sz)
    torch.testing.assert_close(compiled(layer)(x), exact, **bound)
