# tests/cuda/test_gpu.py: several streams, threads and processes on a device, memory that runs out, capture by torch.cuda.graph
"""Executors run on the driver that HOLOGRAM_CUDA_DRIVER names, the tests' emulator too; CUDA tensors need a GPU. What these can be shown
to do without one is in tests/torch/test_cuda.py. Run by tests/cuda/shot.py."""

import concurrent.futures
import os
import subprocess
import sys

import hologram
import hologram_ffi as hg
import numpy as np
import pytest

TEXT = """graph(symbols=1, parameters=1)
%0: f32[s0] = parameter index=0 strides=[1]
%1: f32[s0] = add %0, %0
%2: f32[s0] = exp %1
return %2 strides=[1]
"""


@pytest.fixture
def executor():
    try:
        made = hologram.Executor("cuda")
    except hologram.HologramError as error:
        pytest.skip(str(error))
    with made:
        yield made


@pytest.fixture
def torch():
    if any("fakecuda" in os.environ.get(name, "") for name in ("HOLOGRAM_CUDA_DRIVER", "HOLOGRAM_SPY_DRIVER")):
        pytest.skip("PyTorch has no tensors on the emulator")
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("PyTorch has no CUDA tensors here")
    pytest.importorskip("hologram_torch")
    found._dynamo.reset()
    return found


def alone(executor, values):
    run = hg.graph_compile(executor.handle, hg.graph_parse(TEXT), 0)
    x, y = executor.from_numpy(values), executor.allocate(len(values))
    hg.executable_run(run, [x.handle], [y.handle])
    return y.to_numpy(copy=True)


def test_threads_share_an_executor_each_with_a_stream(executor):
    run = hg.graph_compile(executor.handle, hg.graph_parse(TEXT), 0)
    values = [np.linspace(-1 - n, 1, 500 + n, dtype=np.float32) for n in range(4)]
    wanted = [alone(executor, v) for v in values]

    def work(n):
        stream, result = hologram.Stream(executor), np.empty(len(values[n]), np.float32)
        x, y = (executor.allocate(len(values[n])) for _ in range(2))
        for _ in range(20):
            result[:] = 0
            stream.write(x, values[n])
            hg.executable_run_on_stream(run, stream.handle, [x.handle], [y.handle])
            stream.read(y, result)
            stream.synchronize()
            if not np.array_equal(result, wanted[n]):
                return False
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4


def test_without_memory_an_allocation_is_an_error_and_the_rest_goes_on(executor):
    values = np.linspace(-2, 2, 300, dtype=np.float32)
    before = alone(executor, values)
    hg.executor_set_memory_limit(executor.handle, 1 << 60)  # the driver refuses, not the executor
    for _ in range(2):
        with pytest.raises((hologram.HologramError, MemoryError), match="has no room for 4398046511104 bytes"):
            executor.allocate(1 << 40)
    assert np.array_equal(alone(executor, values), before)


def test_two_processes_use_the_device_at_once(executor):
    program = f"""
import hologram, hologram_ffi as hg, numpy as np, sys
with hologram.Executor("cuda") as executor:
    run = hg.graph_compile(executor.handle, hg.graph_parse('''{TEXT}'''), 0)
    x, y = executor.from_numpy(np.linspace(-1, 1, 1000, dtype=np.float32)), executor.allocate(1000)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(50):
        hg.executable_run(run, [x.handle], [y.handle])
    print(y.to_numpy(copy=True).tobytes().hex())
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([sys.executable, "-c", program], **pipes) for _ in range(2)]
    try:
        assert [process.stdout.readline() for process in both] == ["ready\n"] * 2
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()
        found = [process.communicate(timeout=100)[0].strip() for process in both]
    finally:
        for process in both:
            process.kill()
    assert found == [alone(executor, np.linspace(-1, 1, 1000, dtype=np.float32)).tobytes().hex()] * 2


# --- CUDA tensors ---------------------------------------------------------------------------------
def softened(x):
    """Two kernels with memory between them."""
    y = x.float().softmax(-1)
    return y + y.cumsum(0)


def test_a_captured_graph_is_replayed_with_new_inputs(torch):
    call = torch.compile(softened, backend="hologram", dynamic=False)
    x = torch.randn(64, 256, device="cuda")
    call(x)  # compiled and loaded before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(x)
    for _ in range(3):
        x.copy_(torch.randn(64, 256, device="cuda"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, call(x))
        torch.testing.assert_close(out, softened(x))


def test_streams_of_several_threads_keep_their_order(torch):
    call = torch.compile(softened, backend="hologram", dynamic=False)
    call(torch.randn(64, 256, device="cuda"))

    def work(seed):
        stream = torch.cuda.Stream()
        generator = torch.Generator("cuda").manual_seed(seed)
        with torch.cuda.stream(stream):
            for _ in range(30):
                x = torch.randn(64, 256, device="cuda", generator=generator)
                kept = x.clone()
                found = call(x)
                x.fill_(float("nan"))  # behind the call, on the same stream
                torch.testing.assert_close(found, softened(kept))
        stream.synchronize()
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4


def test_a_call_without_memory_is_an_error_and_the_next_one_is_right(torch):
    call = torch.compile(lambda x, n: (x.expand(n, -1) + 1).cumsum(0), backend="hologram", dynamic=True)
    x = torch.randn(1, 1 << 20, device="cuda")
    torch.testing.assert_close(call(x, 3), (x.expand(3, -1) + 1).cumsum(0))
    free, _ = torch.cuda.mem_get_info()
    with pytest.raises((torch.cuda.OutOfMemoryError, RuntimeError), match="(?i)memory|no room"):
        call(x, free // (4 << 20) * 2)
    torch.cuda.synchronize()
    torch.testing.assert_close(call(x, 5), (x.expand(5, -1) + 1).cumsum(0))


def test_memory_between_steps_counts_in_pytorch_and_obeys_its_limit(torch):
    call = torch.compile(softened, backend="hologram", dynamic=False)
    x = torch.randn(4096, 4096, device="cuda")
    wanted, before = call(x), x.clone()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    taken = torch.cuda.memory_stats()["allocation.all.allocated"]
    out = call(x)
    stats = torch.cuda.memory_stats()
    assert stats["allocation.all.allocated"] == taken + 2, "the result, and one block"
    assert stats["allocated_bytes.all.peak"] >= stats["allocated_bytes.all.current"] + x.nbytes
    del out
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(x.device).total_memory
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError):
            call(x)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert torch.equal(x, before) and torch.equal(call(x), wanted)


def test_a_training_step_has_eagers_gradients(torch):
    """The backward graph runs in a thread of autograd's."""
    weights = torch.randn(256, 256, device="cuda")
    x = torch.randn(64, 256, device="cuda")
    gradients = []
    for function in (softened, torch.compile(softened, backend="hologram", dynamic=False)):
        w = weights.clone().requires_grad_()
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            (function(x @ w) ** 2).sum().backward()
            torch.cuda.current_stream().synchronize()
        gradients.append(w.grad)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-3, atol=1e-3)


OWN = {"native_products": True}


def test_random_numbers_are_eagers_for_the_same_seed(torch):
    """Dropout, Bernoulli's and uniform numbers, and how far the generator has come."""

    def draw(x):
        dropped = torch.nn.functional.dropout(x * 2, 0.3)
        return dropped, torch.bernoulli(x.sigmoid()), torch.rand_like(x) + 1, torch.nn.functional.dropout(dropped.exp(), 0.5)

    for shape in ((7,), (1000, 1001), (3000, 4096)):  # fewer than a block of threads, and more than a grid takes at once
        x = torch.randn(shape, device="cuda")
        found = []
        for function in (draw, torch.compile(draw, backend="hologram", dynamic=False)):
            torch.cuda.manual_seed(7)
            results = [function(x) for _ in range(2)]
            found.append(([t for r in results for t in r], torch.cuda.default_generators[x.device.index or 0].get_offset()))
        assert found[0][1] == found[1][1]
        for ours, eager in zip(found[1][0], found[0][0]):
            torch.testing.assert_close(ours, eager)


def test_switches_of_tf32_decide_the_error_of_products(torch):
    """Of ours in each call: six products of bfloat16 terms, three where TF32 is allowed."""
    x, w = (torch.randn(512, 512, device="cuda") for _ in range(2))
    exact, size = x.double() @ w.double(), x.double().abs() @ w.double().abs()
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        call = torch.compile(torch.mm, backend="hologram", options=OWN, dynamic=False)
        errors = {}
        for allowed in (True, False):
            torch.backends.cuda.matmul.allow_tf32 = allowed
            errors[allowed] = ((call(x, w).double() - exact).abs() / size).max().item()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert errors[False] < 2.0**-20 < errors[True] < 2.0**-14
