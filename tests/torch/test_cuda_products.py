# tests/torch/test_cuda_products.py: products on GPUs: from archives by warpgroups, and with what follows on their rows
import os
import sys

import fake_cuda
import hologram_torch
import numpy as np
import pytest
import torch
from checks import python
from hologram_torch import compiler, counters, owners, runtimes
from hologram_torch.options import Options
from test_cuda import gpu, traced  # noqa: F401  (a fixture)
from torch._subclasses import FakeTensorMode

# Run by a Python of its own, whose device has the capability 9.0: python -c PROGRAM DRIVER ARCHIVE INPUT OUTPUT
ON_HOPPER = """
import ctypes, sys
driver = ctypes.CDLL(sys.argv[1])
driver.fakecuda_inject.argtypes = [ctypes.c_char_p, ctypes.c_int64]
driver.fakecuda_count.restype = ctypes.c_int64
driver.fakecuda_inject(b"capability", 90)
import hologram, numpy as np
model = hologram.load(sys.argv[2], backend="cuda", trust=False, bfloat16="uint16")
x = np.load(sys.argv[3])
first, second = model(x), model(x)
assert np.array_equal(first, second)
np.save(sys.argv[4], first)
print(driver.fakecuda_count(b"maps"), driver.fakecuda_count(b"launches"))
"""


@pytest.mark.parametrize("dtype, launches", [(torch.bfloat16, 2), (torch.float32, 3)])
def test_products_of_an_archive_run_by_warpgroups(tmp_path, dtype, launches):
    """Maps are encoded at the first call alone; of float32 the weights are split before, once."""
    model = torch.nn.Sequential(torch.nn.Linear(136, 264), torch.nn.GELU()).to(dtype).eval()
    x = torch.randn(136, 136).to(dtype)
    path, inputs, outputs = (str(tmp_path / name) for name in ("model.holo", "x.npy", "y.npy"))
    hologram_torch.export(model, (x,), path, isas=())
    np.save(inputs, (x.view(torch.uint16) if dtype == torch.bfloat16 else x).numpy())
    environment = {**os.environ, "HOLOGRAM_CUDA_DRIVER": fake_cuda.LIBRARY, "HOLOGRAM_CUDA_ASSEMBLER": "driver"}
    said = python("-c", ON_HOPPER, fake_cuda.LIBRARY, path, inputs, outputs, env=environment, timeout=300)
    assert said.split() == ["2", str(launches)]
    found = torch.from_numpy(np.load(outputs))
    found = found.view(torch.bfloat16) if dtype == torch.bfloat16 else found
    with torch.no_grad():
        wanted = model.double()(x.double())
    tolerance = 8e-3 if dtype == torch.bfloat16 else 2e-6
    torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=tolerance)


def test_whose_products_of_cuda_tensors_are_and_why(monkeypatch):
    explain = sys.modules[hologram_torch.explain.__module__]  # the function's name is the package's

    def chosen(**options):
        return [str(owners.choose(kind, Options.make(None, options))) for kind in owners.KINDS]

    assert chosen() == ["pytorch (no GPU has measured both)"] * 4
    assert chosen(reproducible=True) == ["own (reproducible; PyTorch's have other bits)"] * 4
    asked = "asked for by native_products or HOLOGRAM_CUDA_PRODUCTS"
    assert chosen(native_products=True) == [f"own ({asked})"] * 4
    assert chosen(native_products=False, reproducible=True) == [f"pytorch ({asked})"] * 4
    monkeypatch.setenv("HOLOGRAM_CUDA_PRODUCTS", "own")
    assert chosen() == [f"own ({asked})"] * 4 and chosen(native_products=False) == [f"pytorch ({asked})"] * 4
    monkeypatch.delenv("HOLOGRAM_CUDA_PRODUCTS")
    with FakeTensorMode():
        on_gpu = [torch.nn.Linear(2, 2, device="cuda"), torch.nn.ReLU()]
        given = [(), (torch.empty(2, device="cuda"),)]
    assert explain._products(torch.nn.Linear(2, 2), (torch.ones(2),), Options()) == {}
    for model, inputs in zip(on_gpu, given):
        text = str(explain.Explanation([], {}, explain._products(model, inputs, Options(native_products=True))))
        assert text.splitlines() == [f"  {kind} of CUDA tensors: own ({asked})" for kind in owners.KINDS]


@pytest.mark.parametrize("kind", ["products", "convolutions"])
def test_each_kind_of_product_is_chosen_for_itself(gpu, kind, monkeypatch, caplog):  # noqa: F811
    """What is not ours goes to PyTorch, counted, and the log says why."""
    monkeypatch.setattr(counters, "_named", set())
    x, w, y = torch.randn(1, 4, 6, 6), torch.randn(8, 4, 3, 3), torch.randn(6, 5)

    def function(x, w, y):
        return torch.nn.functional.conv2d(x, w), x @ y

    graph = traced(function, x, w, y)
    left, theirs = {"products": ("convolutions", "aten.convolution.default"), "convolutions": ("products", "aten.mm.default")}[kind]
    monkeypatch.setitem(owners._USUAL, kind, owners.Choice(True, "measured"))
    call = compiler.compile_graph(graph, "inference", Options(), ())
    assert f"PyTorch runs {theirs} inside the compiled graph: {left} of CUDA tensors: pytorch (no GPU has measured both)" in caplog.text
    hologram_torch.reset_stats()
    for found, right in zip(call([gpu.tensor(v) for v in (x, w, y)]), function(x, w, y), strict=True):
        torch.testing.assert_close(found.cpu(), right, rtol=1e-4, atol=1e-4)
    assert hologram_torch.stats()["fallback_ops"] == {theirs: 1}


def normed(x, w):
    return torch.softmax(x @ w, -1)


def gated(x, w):
    gate, value = (x @ w).chunk(2, -1)
    return torch.nn.functional.silu(gate) * value


@pytest.mark.parametrize("function", [normed, gated])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_what_follows_on_the_rows_of_a_product_is_a_kernel_of_its_own(gpu, function, dtype):  # noqa: F811
    """A processor's kernel of a product has such a tail, or reads two columns at a time; a GPU's plan has none that it would
    have to leave to the host."""
    x, w = torch.randn(40, 72).to(dtype), torch.randn(72, 48).to(dtype)
    with runtimes.owning(frozenset(owners.KINDS)):
        graph = traced(function, x, w)
    call = compiler.compile_graph(graph, "inference", Options(native_products=True), ())
    hologram_torch.reset_stats()
    host, launches = hologram_torch.stats()["host_runs"], gpu.count("launches")
    (found,) = call([gpu.tensor(x), gpu.tensor(w)])
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(found.cpu().double(), function(x.double(), w.double()), rtol=tolerance, atol=tolerance)
    stats = hologram_torch.stats()
    assert stats["host_runs"] == host and stats["fallback_ops"] == {}
    assert gpu.count("launches") >= launches + 2
