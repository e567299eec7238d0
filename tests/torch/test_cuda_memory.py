# tests/torch/test_cuda_memory.py: what calls on CUDA tensors need comes from PyTorch's allocator, over the fake driver and a fake of it
import gc

import pytest
import torch
from hologram_torch import compiler, runtimes
from hologram_torch.options import Options
from test_cuda import compiled, gpu, in_turns, traced  # noqa: F401  (gpu: a fixture)


class OutOfMemory(RuntimeError):
    """In the place of torch.cuda.OutOfMemoryError."""


@pytest.fixture
def calls(gpu):  # noqa: F811
    """What the allocator was asked for from here on, by kind; in the end nothing is left of it and the device is the one before."""
    gc.collect()  # what other tests left would go in the middle of this one
    gpu.wait()
    gpu.allocator.calls.clear()
    live = len(gpu.allocator.live)
    yield gpu.allocator.calls
    gpu.allocator.refused, gpu.current = 0, gpu.streams[0]
    assert len(gpu.allocator.live) == live and gpu.allocator.current == 0


@pytest.fixture
def full(gpu, monkeypatch):  # noqa: F811
    """Lets PyTorch have no memory for as many blocks, and then for no tensor behind so many others."""

    def refuse(blocks, tensors):
        left = [tensors]

        def empty(where, *memory):
            left[0] -= 1
            if left[0] < 0:
                raise OutOfMemory("CUDA out of memory")
            return gpu.empty(*memory)

        gpu.allocator.refused = blocks
        monkeypatch.setattr(runtimes, "empty", empty)

    yield refuse


def weighted(x, w):
    return x * (w * w).sum()


def kept(x, w):
    """weighted(), with what depends on w alone kept."""
    return compiler.compile_graph(traced(weighted, x, w), "inference", Options(), (1,))


@pytest.mark.parametrize("function", [in_turns, lambda x: in_turns(in_turns(x) @ x.T)], ids=["kernels", "pytorchs between"])
def test_a_call_takes_one_block_and_gives_it_back_behind_its_last_kernel(gpu, calls, function):  # noqa: F811
    x = torch.randn(6, 33)
    call, pooled = compiled(function, x), gpu.pooled()
    for stream in (*gpu.streams, gpu.streams[0]):
        gpu.current = stream
        operand = gpu.tensor(x)
        calls.clear()
        waits = gpu.count("waits")
        (out,) = call([operand])
        (take, size, *taken), (give, *given, launches) = calls
        assert (take, give) == ("take", "give") and taken == given == [0, stream.value] and size > 0
        assert launches == gpu.count("launches") and (function is not in_turns or waits == gpu.count("waits"))
        torch.testing.assert_close(out.cpu(), function(x))
    assert gpu.pooled() == pooled


def test_memory_is_taken_on_the_device_of_the_graph(gpu, calls):  # noqa: F811
    gpu.inject("devices", 2)
    x = torch.randn(6, 33)
    call, operand, pooled = compiled(in_turns, x, where="cuda:1"), gpu.tensor(x, 1), gpu.pooled()
    (out,) = call([operand])
    assert [c[:1] + c[-2:] for c in calls[:1]] == [("take", 1, gpu.second.value)] and len(calls) == 2
    torch.testing.assert_close(out.cpu(), in_turns(x))
    assert gpu.pooled() == pooled
    gpu.inject("nothing", 0)


@pytest.mark.parametrize("blocks, tensors", [(1, 0), (0, 0), (0, 1)], ids=["between steps", "first result", "second result"])
def test_without_memory_pytorchs_error_comes_and_the_next_call_is_right(gpu, calls, full, blocks, tensors):  # noqa: F811
    def program(x, y):
        torch.ops.aten.copy_(y, in_turns(x) + y)  # a parameter that the graph writes
        return in_turns(x), in_turns(x).sum(0)

    x, y = torch.randn(6, 33), torch.randn(6, 33)
    call, operands = compiled(lambda x, y: program(x, y), x, y), [gpu.tensor(x), gpu.tensor(y)]
    launches, live, pooled = gpu.count("launches"), gpu.count("blocks"), gpu.pooled()
    full(blocks, tensors)
    with pytest.raises(OutOfMemory, match="CUDA out of memory"):
        call(list(operands))
    gpu.wait()
    assert gpu.count("launches") == launches and gpu.count("blocks") == live and gpu.pooled() == pooled
    assert torch.equal(operands[0].cpu(), x) and torch.equal(operands[1].cpu(), y)
    full(0, 2)
    first, second = call(list(operands))
    wanted = program(x, y)
    for found, right in zip((first, second, operands[1]), (*wanted, y), strict=True):
        torch.testing.assert_close(found.cpu(), right)


@pytest.mark.parametrize("refused", [0, 1])
def test_what_is_kept_of_parameters_counts_in_pytorch_and_serves_all_streams(gpu, calls, refused):  # noqa: F811
    x, w = torch.randn(4, 8), torch.randn(8)
    call, operands = kept(x, w), [gpu.tensor(x), gpu.tensor(w)]
    blocks, live, pooled = gpu.count("blocks"), len(gpu.allocator.live), gpu.pooled()
    gpu.allocator.refused = refused  # a tensor has it then
    for stream in (*gpu.streams, gpu.streams[0]):
        gpu.current = stream
        (out,) = call(list(operands))
        torch.testing.assert_close(out.cpu(), weighted(x, w))
    assert len(gpu.allocator.live) == live + 1 - refused
    operands[1] = gpu.tensor(w + torch.arange(8))
    torch.testing.assert_close(call(list(operands))[0].cpu(), weighted(x, w + torch.arange(8)))
    assert len(gpu.allocator.live) == live + 1  # the new values took the place of the old ones
    gpu.current = gpu.streams[1]
    (out,) = call(list(operands))
    del call  # what is kept is given back on the first stream, behind the call on the second
    torch.testing.assert_close(out.cpu(), weighted(x, w + torch.arange(8)))
    del out
    for gpu.current in gpu.streams:
        gpu.wait()
    assert (len(gpu.allocator.live), gpu.count("blocks"), gpu.pooled()) == (live, blocks, pooled)


@pytest.mark.parametrize("there", [True, False], ids=["allocator", "none"])
def test_a_capture_takes_memory_of_its_own(gpu, calls, monkeypatch, there):  # noqa: F811
    if not there:
        monkeypatch.setattr(runtimes, "allocator", lambda: None)
    x = torch.randn(6, 33)
    call, operand = compiled(in_turns, x), gpu.tensor(x)
    call([operand])
    calls.clear()
    with gpu.captured() as replay:
        (out,) = call([operand])
    assert [c[0] for c in calls] == ["take", "give"] * there
    operand.write(x * 2)
    replay()
    torch.testing.assert_close(out.cpu(), in_turns(x * 2))


def test_without_pytorchs_functions_memory_is_the_drivers(gpu, calls, monkeypatch):  # noqa: F811
    monkeypatch.setattr(runtimes, "allocator", lambda: None)
    x, w = torch.randn(6, 33), torch.randn(33)
    call, blocks, pooled = compiled(in_turns, x), gpu.count("blocks"), gpu.pooled()
    torch.testing.assert_close(call([gpu.tensor(x)])[0].cpu(), in_turns(x))
    assert gpu.pooled() == pooled + 1
    torch.testing.assert_close(kept(x, w)([gpu.tensor(x), gpu.tensor(w)])[0].cpu(), weighted(x, w))
    gpu.wait()
    assert gpu.pooled() == pooled + 2 and gpu.count("blocks") == blocks and calls == []
