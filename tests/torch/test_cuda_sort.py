# tests/torch/test_cuda_sort.py: sorts of CUDA tensors over the fake driver
import hologram_torch
import pytest
import torch
from test_cuda import both, compiled, gpu  # noqa: F401  (a fixture)

EQUAL = torch.tensor([float("nan"), 0.0, -0.0, float("inf"), -1.0, 2.0] * 7).reshape(2, 21)
TABLE = {
    "sort": (lambda x: x.sort(dim=-1, stable=True), [torch.randn(3, 40), EQUAL, torch.randn(2, 1), torch.empty(3, 0)]),
    "down": (lambda x: x.sort(dim=0, descending=True, stable=True), [torch.randn(70, 3), EQUAL.T.clone(), torch.randint(-3, 3, (33, 2))]),
    "bytes": (lambda x: x.argsort(stable=True), [torch.randint(0, 5, (300,), dtype=torch.uint8), torch.rand(40) < 0.5]),
    "halves": (lambda x: x.sort(dim=-1, stable=True), [torch.randn(2, 33).bfloat16(), torch.randn(4, 5).half()]),
    "topk": (lambda x: x.topk(3), [torch.randn(4, 64), torch.randperm(500), torch.randn(3)]),
    "median": (lambda x: (*x.median(-1), *x.nanmedian(-1)), [torch.randn(3, 8), torch.randn(2, 1), torch.randn(3, 31)]),
    "mode": (lambda x: x.mode(-1)[0], [torch.randint(0, 4, (3, 30))]),
    "doubles": (lambda x: x.sort(stable=True), [torch.randn(50).double(), torch.randint(-(1 << 60), 1 << 60, (40,))]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_sorts_run_on_the_device_with_the_cpus_values(gpu, name):  # noqa: F811
    function, operands = TABLE[name]
    for x in operands:
        hologram_torch.reset_stats()
        runs = hologram_torch.stats()["host_runs"]
        on_gpu, on_cpu = both(gpu, function, x)
        torch.testing.assert_close(on_gpu, on_cpu, rtol=0, atol=0, equal_nan=True)
        eager = function(x)
        torch.testing.assert_close(on_gpu, [eager] if torch.is_tensor(eager) else eager, equal_nan=True)
        assert hologram_torch.stats()["fallback_ops"] == {} and hologram_torch.stats()["host_runs"] == runs


def test_rows_of_several_tiles_are_pytorchs_unless_products_are_ours(gpu):  # noqa: F811
    x = torch.randint(0, 1000, (2, 4500)).float()

    def function(x):
        return x.topk(5)[0], x.sort(dim=-1, stable=True)[1]

    for own, left in ((None, {"aten.sort.stable": 1, "aten.topk.default": 1}), (True, {})):
        hologram_torch.reset_stats()
        values, positions = compiled(function, x, native_products=own)([gpu.tensor(x)])
        assert torch.equal(values.cpu(), x.topk(5)[0]) and torch.equal(positions.cpu(), x.sort(dim=-1, stable=True)[1])
        assert hologram_torch.stats()["fallback_ops"] == left
