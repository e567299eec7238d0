# tests/torch/test_cuda_scatter.py: scatters of CUDA tensors over the fake driver: on the device, with the CPU's bits
import hologram_torch
import pytest
import torch
from test_cuda import both, compiled, gpu  # noqa: F401  (a fixture)

aten = torch.ops.aten

# Operands by the number of indices, and the operation; indices name 9 places.
TABLE = {
    "embedding": (lambda at, n: (at, torch.randn(n, 20)), lambda i, x: aten.embedding_dense_backward(x, i, 9, 2, False)),
    "index_add": (lambda at, n: (torch.randn(9, 3), at, torch.randn(n, 3)), lambda x, i, y: x.index_add(0, i, y, alpha=2)),
    "index_copy": (lambda at, n: (torch.randn(2, 9), at, torch.randn(2, n)), lambda x, i, y: x.index_copy(1, i, y)),
    "index_put": (lambda at, n: (torch.randn(9, 12), at, torch.randn(n, 12)), lambda x, i, y: x.index_put([i], y, accumulate=True)),
    "index_reduce": (lambda at, n: (torch.randn(9, 2), at, torch.randn(n, 2)), lambda x, i, y: x.index_reduce(0, i, y, "amax")),
    "halves": (lambda at, n: (torch.randn(9, 9).bfloat16(), at, torch.randn(n, 9).bfloat16()), lambda x, i, y: x.index_add(0, i, y)),
    "scatter_add": (lambda at, n: (torch.randn(2, 9), at.expand(2, n).clone(), torch.randn(2, n)), lambda x, i, y: x.scatter_add(1, i, y)),
    "scatter": (lambda at, n: (torch.randn(9, 2), at.reshape(n, 1), torch.randn(n, 1)), lambda x, i, y: x.scatter(0, i, y)),
    "counts": (lambda at, n: (torch.zeros(9, dtype=torch.int64), at), lambda x, i: x.scatter_add(0, i, torch.ones_like(i))),
    "products": (lambda at, n: (torch.randn(9), at, torch.randn(n)), lambda x, i, y: x.scatter_reduce(0, i, y, "prod", include_self=False)),
}  # fmt: skip


def distinct(name):
    return name in ("index_copy", "scatter")  # of which eager may take any that goes to a place


@pytest.mark.parametrize("name", TABLE)
def test_scatters_run_on_the_device_with_the_cpus_bits(gpu, name):  # noqa: F811
    make, function = TABLE[name]
    every = torch.arange(9).repeat(10)[torch.randperm(90)]
    first = torch.randperm(9) if distinct(name) else every
    for at in (first, torch.full((40,), 3), torch.tensor([4]), torch.empty(0, dtype=torch.int64)):
        operands = make(at, len(at))
        hologram_torch.reset_stats()
        runs = hologram_torch.stats()["host_runs"]
        (on_gpu,), (on_cpu,) = both(gpu, function, *operands)
        assert torch.equal(on_gpu, on_cpu)
        assert hologram_torch.stats()["fallback_ops"] == {} and hologram_torch.stats()["host_runs"] == runs
        if len(at) > 0 and not (distinct(name) and len(at) == 40):
            close = {"rtol": 2e-2, "atol": 2e-2} if on_cpu.dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
            torch.testing.assert_close(on_gpu, function(*operands), **close)


def test_an_index_out_of_range_writes_nothing_and_is_raised_later(gpu):  # noqa: F811
    x, index, source = torch.randn(9, 4), torch.arange(40) % 10, torch.randn(40, 4)
    call = compiled(lambda x, i, y: x.index_add(0, i, y), x, index, source)
    (out,) = call([gpu.tensor(v) for v in (x, index, source)])
    inside = index < 9
    torch.testing.assert_close(out.cpu(), x.index_add(0, index[inside], source[inside]))
    with pytest.raises(IndexError, match="index out of range"):
        call.check()
    call([gpu.tensor(v) for v in (x, index % 9, source)])
    gpu.wait()
    call.check()
