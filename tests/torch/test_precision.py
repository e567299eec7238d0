# tests/torch/test_precision.py: what torch.set_float32_matmul_precision lets float32 products do
import platform

import pytest
import torch
from harness import compile_fresh, graph_count

hologram_torch = pytest.importorskip("hologram_torch")
precision = pytest.importorskip("hologram_torch.precision")
host_cpu = pytest.importorskip("hologram._core").host_cpu


def brief_products() -> bool:
    choices = host_cpu()["choices"]
    return choices["float32 medium"]["path"] == "terms" or choices["bfloat16"]["path"] == "dots"


def chain_bound(k: int) -> float:
    return (min(k, 384) + -(-k // 384)) * 2.0**-24


def error(got, x, y) -> float:
    """The largest error over the sum of the products' magnitudes."""
    x, y = x.double(), y.double()
    return ((got.double() - x @ y).abs() / (x.abs() @ y.abs())).max().item()


class Layer(torch.nn.Linear):
    """A product with a weight that is packed once."""

    def __init__(self, y):
        super().__init__(*y.shape, bias=False)
        self.weight = torch.nn.Parameter(y.t().contiguous(), requires_grad=False)


KINDS = {
    "packed": lambda x, y: (Layer(y), (x,)),
    "given": lambda x, y: (torch.mm, (x, y)),
    "given transposed": lambda x, y: (lambda x, w: x @ w.t(), (x, y.t().contiguous())),
    "batch": lambda x, y: (lambda x, y: torch.bmm(x[None], y[None])[0], (x, y)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m, n, k", [(100, 70, 500), (1, 1100, 1000), (7, 300, 801)])
def test_each_call_has_the_precision_of_its_time(kind, m, n, k, setting, strict):
    x, y = (torch.randn(m, k), torch.randn(k, n)) if m > 1 else (torch.full((m, k), 1 / 3), torch.full((k, n), 1 / 3))
    function, inputs = KINDS[kind](x, y)
    setting("highest")
    exact = compile_fresh(function, dynamic=False)(*inputs)
    sums = m == 1 and kind == "given transposed" and host_cpu()["isa"] in ("avx2", "avx512")  # errors of equal numbers add up
    assert error(exact, x, y) < ((-(-k // 64) + 7) * 2.0**-24 if sums else chain_bound(k))
    setting("medium")
    compiled = compile_fresh(function, dynamic=False)
    found = {}
    for precision in ("medium", "high", "medium", "high"):
        setting(precision)
        found[precision] = compiled(*inputs)
    assert graph_count() == 1
    setting("highest")  # Dynamo's own guard
    assert torch.equal(compiled(*inputs), exact)
    assert error(found["high"], x, y) < chain_bound(k) + 2.0**-15
    assert error(found["medium"], x, y) < chain_bound(k) + 2.0**-7
    if brief_products() and m >= 64 or kind == "packed" and brief_products() and m > 1:
        assert error(found["medium"], x, y) > 2.0**-16  # it is taken


def test_a_backward_pass_asks_again(setting, strict):
    x, y = torch.randn(128, 200, requires_grad=True), torch.randn(200, 96, requires_grad=True)
    g = torch.randn(128, 96)
    setting("medium")
    compiled = compile_fresh(lambda x, y: x @ y, dynamic=False)
    z = compiled(x, y)
    setting("highest")
    z.backward(g)
    assert error(x.grad, g, y.detach().t()) < chain_bound(96)
    assert error(y.grad, x.detach().t(), g) < chain_bound(128)
    x.grad = y.grad = None
    setting("medium")
    compiled(x, y).backward(g)
    assert error(x.grad, g, y.detach().t()) < chain_bound(96) + 2.0**-7
    if brief_products():
        assert error(x.grad, g, y.detach().t()) > 2.0**-16


def test_sizes_as_symbols(setting, strict):
    setting("medium")
    compiled = compile_fresh(lambda x, y: (x @ y).relu(), dynamic=True)
    for m in (100, 130, 90):
        x, y = torch.rand(m, 300), torch.rand(300, 120)
        assert error(compiled(x, y), x, y) < chain_bound(300) + 2.0**-7
        setting("high")
        assert error(compiled(x, y), x, y) < chain_bound(300) + 2.0**-15
        setting("medium")


def test_reproducible_ignores_it(setting):
    x, y = torch.randn(100, 400), torch.randn(400, 90)
    torch._dynamo.reset()
    compiled = torch.compile(torch.mm, backend=hologram_torch.hologram, mode="reproducible", dynamic=False)
    bits = []
    for precision in ("medium", "high", "highest"):
        setting(precision)
        bits.append(compiled(x, y))
    assert torch.equal(bits[0], bits[1]) and torch.equal(bits[0], bits[2])


@torch.no_grad()
def test_a_frozen_model_asks_in_each_call(setting):
    layer, x = torch.nn.Linear(300, 200, bias=False).requires_grad_(False).eval(), torch.randn(90, 300)
    y = layer.weight.t()
    setting("medium")
    frozen = hologram_torch.freeze(layer, (x,))
    if brief_products():
        assert error(frozen(x), x, y) > 2.0**-16
    setting("highest")
    assert error(frozen(x), x, y) < chain_bound(300)


def test_fast_permits_what_high_does(setting):
    x, y = torch.randn(100, 500), torch.randn(500, 70)
    function, inputs = KINDS["packed"](x, y)
    exact = compile_fresh(function)(*inputs)
    setting("high")
    high = compile_fresh(function)(*inputs)
    setting("highest")
    fast = compile_fresh(function, options={"fast": True})(*inputs)
    assert torch.equal(fast, high)
    assert torch.equal(fast, exact) == (precision.treatment(fast=True) == precision.EXACT)
    assert torch.equal(compile_fresh(function, options={"fast": True, "reproducible": True})(*inputs), exact)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="SSE4.2 runs on x86-64 alone")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_fast_products_round_twice_where_no_instruction_fuses(dtype, monkeypatch):
    from hologram import _core

    x, y = torch.randn(20, 300).to(dtype), torch.randn(300, 24).to(dtype)
    graph = _core.Graph()
    kind = "f32" if dtype == torch.float32 else "f16"
    operands = [graph.parameter(i, kind, list(t.shape), list(t.stride())) for i, t in enumerate((x, y))]
    graph.output(graph.make("dot_general", operands, ints=[0]), [24, 1])

    def product(isa="", **options):
        monkeypatch.setenv("HOLOGRAM_CPU_ISA", isa)
        executable = _core.compile(graph, _core.Runtime("cpu"), **options)
        tensors, api = [("tensor", 0), ("tensor", 1)], torch.Tensor.__dlpack_c_exchange_api__
        return _core.torch_call(executable, api, tensors, [("output", 0)], lambda *_: None)([x, y])[0]

    twice = torch.zeros(20, 24)
    for i in range(300):
        twice += x[:, i : i + 1].float() * y[i].float()
    chain, fast = product(reproducible=True), product("sse42", fast=True)
    assert torch.equal(fast, twice.to(dtype))
    assert torch.equal(fast, chain) == (dtype == torch.float16)  # whose products are floats
    assert torch.equal(product("sse42"), chain) and torch.equal(product("sse42", fast=True, reproducible=True), chain)
    if dtype == torch.float32:
        assert error(fast, x, y) < chain_bound(300) + 1.01 * 2.0**-24


def test_fast_code_for_webassembly_is_smaller(tmp_path):
    layer, x = torch.nn.Linear(48, 32).eval(), torch.randn(8, 48)

    def size(layer, **options):
        return hologram_torch.export(layer, (x,), tmp_path / "x.holo", isas=["wasm32-simd128"], **options).bytes

    for module, less in ((layer, 1000), (torch.nn.Sequential(layer, torch.nn.GELU()).eval(), 5000)):
        assert size(module) - less > size(module, fast=True)
        assert size(module, fast=True, reproducible=True) == size(module, reproducible=True)
