# tests/torch/test_cuda_products.py: products on GPUs: from archives by warpgroups, and with what follows on their rows
import os
import subprocess
import sys

import fake_cuda
import hologram_torch
import numpy as np
import pytest
import torch
from harness import BACKEND
from hologram_torch import compiler, device
from hologram_torch.options import Options
from test_cuda import gpu, traced  # noqa: F401  (a fixture)

pytestmark = pytest.mark.skipif(BACKEND != "hologram", reason="tests of this backend alone")

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
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(136, 264), torch.nn.GELU()).to(dtype).eval()
    x = torch.randn(136, 136).to(dtype)
    path, inputs, outputs = (str(tmp_path / name) for name in ("model.holo", "x.npy", "y.npy"))
    hologram_torch.export(model, (x,), path, isas=())
    np.save(inputs, (x.view(torch.uint16) if dtype == torch.bfloat16 else x).numpy())
    environment = {**os.environ, "HOLOGRAM_CUDA_DRIVER": fake_cuda.LIBRARY, "HOLOGRAM_CUDA_ASSEMBLER": "driver"}
    command = [sys.executable, "-c", ON_HOPPER, fake_cuda.LIBRARY, path, inputs, outputs]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", str(launches)]
    found = torch.from_numpy(np.load(outputs))
    found = found.view(torch.bfloat16) if dtype == torch.bfloat16 else found
    with torch.no_grad():
        wanted = model.double()(x.double())
    tolerance = 8e-3 if dtype == torch.bfloat16 else 2e-6
    torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=tolerance)


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
    with device.products(True):
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
