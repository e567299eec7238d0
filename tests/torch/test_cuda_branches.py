# tests/torch/test_cuda_branches.py: graphs of launches, whose nodes wait for those alone that they share written memory with

import fake_cuda
import pytest
import torch
from test_cuda import compiled, gpu  # noqa: F401  (a fixture)

COUNTS = ("graphs", "launches", "edges", "roots")


def counted(gpu, run):  # noqa: F811
    """What run() gives, and how much of each it took."""
    before = [gpu.count(what) for what in COUNTS]
    out = run()
    return out, {what: gpu.count(what) - b for what, b in zip(COUNTS, before, strict=True)}


def apart(x, y):
    """Two branches of four results each, which have memory of their own."""
    out = []
    for v in (x, y):
        for dim in (-1, 0, -1, 0):
            v = torch.softmax(v, dim)
            out.append(v)
    return tuple(out)


def joined(x, y):
    out = apart(x, y)
    return (*out, out[3] - out[7])  # in the kernel of one of them


def results(call, *inputs):
    return [out.cpu() for out in call(list(inputs))]


@pytest.mark.parametrize("function, nodes, ends", [(apart, 8, 2), (joined, 7, 1)])
def test_branches_wait_for_nothing_of_each_other(gpu, function, nodes, ends):  # noqa: F811
    x, y = torch.randn(6, 33), torch.randn(6, 33)
    call, on_cpu = compiled(function, x, y, cudagraphs=True), compiled(function, x, y, where="cpu")
    for n in range(1, 20):  # in other orders
        got, counts = counted(gpu, lambda: results(call, gpu.tensor(x * n), gpu.tensor(y - n)))
        assert all(map(torch.equal, got, on_cpu([x * n, y - n])))
        assert counts["graphs"] == 1 and counts["launches"] == nodes
        made = n == 1  # once
        assert counts["roots"] == 2 * made and counts["edges"] == (nodes - ends) * made


def in_place(x, y):
    torch.ops.aten.copy_(x, torch.softmax(x, -1))
    z = torch.softmax(y, 0)
    torch.ops.aten.copy_(y, torch.softmax(z, -1))
    return torch.softmax(x, 0), z


def test_arguments_that_share_memory_wait_for_each_other(gpu):  # noqa: F811
    """Which ones do may differ between calls of one graph, whose edges then do."""
    v = torch.randn(12, 33)
    call, in_order = (compiled(in_place, v[:6], v[6:], cudagraphs=choice) for choice in (True, False))

    def run(call, n, rows):
        memory = gpu.tensor(v * (n + 1))
        x, y = (fake_cuda.DeviceTensor(gpu, memory.data + 4 * 33 * first, (6, 33), (33, 1), torch.float32) for first in (0, rows))
        return [*results(call, x, y), memory.cpu()]

    edges = []
    for n in range(24):
        rows = (6, 3, 0)[n // 2 % 3] if n < 12 else 3  # of y behind x: apart, in part the same, the same
        got, counts = counted(gpu, lambda: run(call, n, rows))
        assert all(map(torch.equal, got, run(in_order, n, rows)))
        assert counts["graphs"] == 1
        edges.append(counts["edges"])
    # Where both are the same, the same launches wait for each other as where they are in part.
    assert [e > 0 for e in edges] == [True, False, True, False, False, False] * 2 + [False] * 12
