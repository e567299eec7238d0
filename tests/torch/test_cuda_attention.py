# tests/torch/test_cuda_attention.py: gradients of attention of CUDA tensors, over the fake driver
import hologram_torch
import pytest
import torch
from hologram_torch import compiler, owners, runtimes
from hologram_torch.capture import attention  # noqa: F401  (registers hologram::sdpa)
from hologram_torch.options import Options
from test_cuda import gpu  # noqa: F401  (a fixture)
from test_cuda_models import traced


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-5), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("causal, grouped, softcap", [(True, False, 0.0), (False, True, 2.0)])
def test_gradients_of_attention_are_one_kernel_on_the_gpu(gpu, dtype, tolerance, causal, grouped, softcap):  # noqa: F811
    heads = 4 if grouped else 2
    q, g = (torch.randn(1, heads, 20, 16).to(dtype) for _ in range(2))
    k, v = (torch.randn(1, 2, 24, 16).to(dtype) for _ in range(2))
    choices = causal, 0.25, grouped, softcap

    def step(q, k, v, g):
        out, lse = torch.ops.hologram.sdpa_lse(q, k, v, None, *choices)
        return torch.ops.hologram.sdpa_backward(g, q, k, v, None, out, lse, *choices)

    with runtimes.owning(frozenset(owners.KINDS)):
        graph = traced(step, q, k, v, g)
    call = compiler.compile_graph(graph, "inference", Options(native_products=True), ())
    hologram_torch.reset_stats()
    before = hologram_torch.stats()["host_runs"]
    found = call([gpu.tensor(x) for x in (q, k, v, g)])
    wanted = step(*(x.double() for x in (q, k, v, g)))
    for result, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(result.cpu().double(), right, rtol=tolerance, atol=tolerance)
    stats = hologram_torch.stats()
    assert stats["host_runs"] == before and stats["fallback_ops"] == {}
