# tests/torch/test_cuda.py: graphs of CUDA tensors over the fake driver: all but PyTorch's tensor itself
import os

import fake_cuda
import forks
import hologram_torch
import pytest
import torch
from checks import refuses
from hologram_torch import compiler, runtimes
from hologram_torch.options import Options
from hologram_torch.translate import host
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx


@pytest.fixture(scope="module")
def gpu():
    """The fake driver in the place of libcuda, its tensors in the place of PyTorch's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLOGRAM_CUDA_DRIVER", fake_cuda.LIBRARY)
        driver = fake_cuda.FakeCuda()
        pytorchs = runtimes.exchange
        patch.setattr(runtimes, "exchange", lambda where: pytorchs(where) if where == "cpu" else driver.exchange)
        patch.setattr(runtimes, "empty", lambda where, *memory: driver.empty(*memory, device_id=int(where.partition(":")[2])))
        patch.setattr(runtimes, "allocator", lambda: driver.allocator.addresses)
        patch.setattr(host.HostTable, "__call__", _on_copies(driver, host.HostTable.__call__))
        yield driver
        driver.inject("nothing", 0)


def _on_copies(driver, call):
    """PyTorch's operators see copies of the device's memory, behind what is on its stream."""

    def run(table, callee, operands, sizes, strides):
        here = [x.cpu() if isinstance(x, fake_cuda.DeviceTensor) else x for x in operands]
        return [driver.tensor(x) if isinstance(x, torch.Tensor) else x for x in call(table, callee, here, sizes, strides)]

    return run


def traced(function, *inputs, where="cuda"):
    """An FX graph whose tensors are on `where`."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=where) for x in inputs]
        return make_fx(function)(*fakes)


def traced_dynamic(function, x):
    """Of a matrix on the GPU whose rows are as many as a symbol says, the graph's first argument."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC])
    fake = mode.from_tensor(x, symbolic_context=context)
    with mode:
        there = torch.empty_strided(fake.shape, fake.stride(), dtype=x.dtype, device="cuda")
        return make_fx(lambda n, x: function(x))(fake.shape[0], there)


def compiled(function, *inputs, where="cuda", **options):
    return compiler.compile_graph(traced(function, *inputs, where=where), "inference", Options(**options), ())


def both(gpu, function, *inputs):
    """Results of the graph for tensors on the GPU, and for the host's."""
    there = compiled(function, *inputs)([gpu.tensor(x) for x in inputs])
    return [x.cpu() for x in there], compiled(function, *inputs, where="cpu")(list(inputs))


def normed(x, w):
    mean = x.mean(-1, keepdim=True)
    return torch.softmax((x - mean) * w, -1), torch.nn.functional.gelu(x).sum(0)


def test_loops_run_on_the_device_with_the_hosts_bits(gpu):
    x, w = torch.randn(6, 70), torch.randn(70)
    before, host_runs = gpu.count("launches"), hologram_torch.stats()["host_runs"]
    on_gpu, on_cpu = both(gpu, normed, x, w)
    assert all(torch.equal(a, b) for a, b in zip(on_gpu, on_cpu, strict=True))
    assert gpu.count("launches") > before and hologram_torch.stats()["host_runs"] == host_runs


def test_graphs_of_the_hosts_tensors_run_on_the_gpu_where_that_is_asked_for():
    """HOLOGRAM_BACKEND=cuda: on copies, gradients of attention too, and no step on the host."""
    program = """
import torch, hologram_torch
attend = torch.nn.functional.scaled_dot_product_attention
x, y = (torch.ones(1, 1, 4, 8).requires_grad_() for _ in range(2))
torch.compile(lambda x: attend(x, x, x), backend="hologram")(x).sum().backward()
attend(y, y, y).sum().backward()
torch.testing.assert_close(x.grad, y.grad)
print(hologram_torch.stats()["host_runs"])
def read_by_pytorch(x):  # a result, read on the host in the midst of the call
    y = x.exp()
    return y, y.sin(), torch.linalg.matrix_exp(y), y.clone()
x = torch.randn(4, 4)
for ours, eager in zip(torch.compile(read_by_pytorch, backend="hologram")(x), read_by_pytorch(x), strict=True):
    torch.testing.assert_close(ours, eager)
print(hologram_torch.explain(lambda x: torch.softmax(x, -1), x))
"""
    environment = {**os.environ, "HOLOGRAM_BACKEND": "cuda", "HOLOGRAM_CUDA_DRIVER": fake_cuda.LIBRARY}
    done = forks.run(program, env=environment)
    assert done.returncode == 0, done.stderr
    runs, _, explanation = done.stdout.partition("\n")
    assert int(runs) == 0
    assert "on Fake GPU 0, compute capability 8.0, 4 multiprocessors" in explanation and "products on" not in explanation


def test_a_cache_is_updated_in_place(gpu):
    """Its places alone are read and written, by one kernel."""

    def update(cache, position, keys):
        new = cache.index_copy(2, position, keys)
        torch.ops.aten.copy_(cache, new)  # as AOTAutograd leaves it, behind all else
        return keys * 2

    cache, position, keys = torch.randn(2, 3, 64, 8), torch.tensor([5, 63]), torch.randn(2, 3, 2, 8)
    wanted = cache.index_copy(2, position, keys)
    there = [gpu.tensor(x) for x in (cache, position, keys)]
    hologram_torch.reset_stats()
    call = compiled(update, cache, position, keys)
    launches = gpu.count("launches")
    (twice,) = call(list(there))
    assert torch.equal(there[0].cpu(), wanted) and torch.equal(twice.cpu(), keys * 2)
    assert gpu.count("launches") == launches + 2 and hologram_torch.stats()["fallback_ops"] == {}
    call([there[0], gpu.tensor(torch.tensor([1, 64])), there[2]])
    gpu.wait()
    refuses(IndexError, None, call.check)


def test_an_index_out_of_range_is_raised_by_the_next_call_and_the_device_goes_on(gpu):
    table, good, bad = torch.randn(5, 3), torch.tensor([4, 0]), torch.tensor([1, 9])
    call = compiled(lambda t, i: t.index_select(0, i), table, good)
    operand = gpu.tensor(table)
    call([operand, gpu.tensor(bad)])
    gpu.wait()
    refuses(IndexError, "index out of range", lambda: call([operand, gpu.tensor(good)]))
    assert torch.equal(call([operand, gpu.tensor(good)])[0].cpu(), table[good])
    call([operand, gpu.tensor(bad)])
    gpu.wait()
    refuses(IndexError, None, call.check)
    call.check()


def test_any_address_of_an_element_will_do(gpu):
    big = torch.randn(4001)
    call = compiled(lambda x: x * 2 + 1, big[:3997])
    memory = gpu.tensor(big)
    for first in range(4):
        part = fake_cuda.DeviceTensor(gpu, memory.data + 4 * first, [3997], [1], torch.float32)
        assert torch.equal(call([part])[0].cpu(), big[first : first + 3997] * 2 + 1)


def test_graphs_run_on_the_device_that_most_of_their_tensors_are_on(gpu):
    gpu.inject("devices", 2)
    x, y = torch.randn(5, 33), torch.randn(33)
    call = compiled(lambda x, y: torch.softmax(x * y, -1), x, y, where="cuda:1")
    operands = [gpu.tensor(v, 1) for v in (x, y)]
    launches, context = [gpu.count("launches0"), gpu.count("launches1")], gpu.current_context()
    (out,) = call(list(operands))
    assert out.device_id == 1 and torch.equal(out.cpu(), compiled(lambda x, y: torch.softmax(x * y, -1), x, y, where="cpu")([x, y])[0])
    assert gpu.count("launches0") == launches[0] and gpu.count("launches1") > launches[1]
    assert gpu.current_context() == context == gpu.contexts[0].value
    with pytest.raises(RuntimeError, match=r"an argument of a compiled graph is on device 2:0, its kernels on 2:1"):
        call([gpu.tensor(x), operands[1]])
    assert runtimes.of(traced(lambda x, y: x.to("cuda:0") + 1, x, y, where="cuda:1").graph) == "cuda:1"
    gpu.inject("nothing", 0)


def in_turns(x):
    for _ in range(5):
        x = torch.softmax(torch.softmax(x, -1), 0) * 3
    return x


@pytest.mark.parametrize("choice", [None, True, False])
def test_kernels_in_a_row_become_one_graph_whose_addresses_are_patched(gpu, choice):
    x = torch.randn(6, 33)
    call, on_cpu = compiled(in_turns, x, cudagraphs=choice), compiled(in_turns, x, where="cpu")
    counts, kept = [], []
    for n in range(6):
        before = [gpu.count(what) for what in ("graphs", "patches", "launches", "waits")]
        operand = gpu.tensor(x * n)
        before[3] = gpu.count("waits")
        kept.append((n, operand, call([operand])[0]))
        counts.append([gpu.count(what) - b for what, b in zip(("graphs", "patches", "launches", "waits"), before, strict=True)])
    for n, _, out in kept:  # each call's results are its own
        assert torch.equal(out.cpu(), on_cpu([x * n])[0])
    launches = counts[0][2]
    assert launches >= 8 and all(c[2] == launches and c[3] == 0 for c in counts)
    assert [c[0] for c in counts] == {None: [0, 0, 1, 1, 1, 1], True: [1] * 6, False: [0] * 6}[choice]
    assert all(c[1] < launches for c in counts)
    if choice is not False:
        assert counts[5][1] > 0 and hologram_torch.stats()["graph_launches"] > 0


@pytest.mark.parametrize("what", ["instantiate", "patch", "graph"])
def test_a_graph_that_the_driver_refuses_is_launched_kernel_by_kernel(gpu, what):
    x = torch.randn(6, 33)
    call, on_cpu = compiled(in_turns, x, cudagraphs=True), compiled(in_turns, x, where="cpu")
    gpu.inject(what, 0)
    kept, graphs = [(n, call([gpu.tensor(x * n)])[0]) for n in range(1, 5)], gpu.count("graphs")
    gpu.inject("nothing", 0)
    kept.append((5, call([gpu.tensor(x * 5)])[0]))
    assert all(torch.equal(out.cpu(), on_cpu([x * n])[0]) for n, out in kept)
    assert gpu.count("graphs") == graphs  # it is not tried again at once
    for n in range(6, 25):
        assert torch.equal(call([gpu.tensor(x * n)])[0].cpu(), on_cpu([x * n])[0])
    assert gpu.count("graphs") > graphs


def test_sizes_have_graphs_of_their_own(gpu):
    graph = traced_dynamic(in_turns, torch.randn(6, 33))
    call, on_cpu = compiler.compile_graph(graph, "inference", Options(cudagraphs=True), ()), compiled
    kept, graphs = [], gpu.count("graphs")
    for n in (6, 9, 6, 12, 9, 6):
        x = torch.randn(n, 33)
        kept.append((x, call([n, gpu.tensor(x)])[0]))
    assert gpu.count("graphs") == graphs + 6
    assert all(torch.equal(out.cpu(), on_cpu(in_turns, x, where="cpu")([x])[0]) for x, out in kept)


def test_a_captured_call_waits_for_nothing_and_runs_again(gpu):
    x, table, index = torch.randn(6, 33), torch.randn(6, 33), torch.tensor([1, 5])

    def program(x, t, i):
        return in_turns(x).sum() + t.index_select(0, i)

    call, on_cpu = compiled(program, x, table, index, cudagraphs=True), compiled(program, x, table, index, where="cpu")
    operands = [gpu.tensor(v) for v in (x, table, index)]
    call(list(operands))  # as PyTorch asks for it
    waits, graphs, blocks = gpu.count("waits"), gpu.count("graphs"), gpu.count("blocks")
    with gpu.captured() as replay:
        (out,) = call(list(operands))
        assert gpu.count("waits") == waits and gpu.count("graphs") == graphs and gpu.count("blocks") == blocks + 1
    for n in (2, 3):
        operands[0].write(x * n)
        replay()
        assert torch.equal(out.cpu(), on_cpu([x * n, table, index])[0])
    operands[2].write(torch.tensor([1, 6]))
    replay()
    gpu.wait()
    refuses(IndexError, None, call.check)


def test_what_is_kept_of_parameters_is_not_computed_in_a_capture(gpu):
    x, w = torch.randn(4, 8), torch.randn(8)
    call = compiler.compile_graph(traced(lambda x, w: x * torch.softmax(w, -1), x, w), "inference", Options(), (1,))
    operands = [gpu.tensor(x), gpu.tensor(w)]
    with gpu.captured(), pytest.raises(RuntimeError, match="call the graph once before"):
        call(list(operands))
    call(list(operands))
    with gpu.captured() as replay:
        (out,) = call(list(operands))
    replay()
    torch.testing.assert_close(out.cpu(), x * torch.softmax(w, -1))


def test_without_a_driver_graphs_of_cuda_tensors_are_pytorchs(monkeypatch, caplog):
    monkeypatch.setenv("HOLOGRAM_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    runtimes._make.cache_clear()
    runtimes._serves.cache_clear()
    graph = traced(lambda x: torch.softmax(x, -1) + 1, torch.randn(3, 4))
    with caplog.at_level("WARNING", logger="hologram"):
        assert runtimes.of(graph.graph) == "cpu"
    assert "tensors on cuda:0 are left to PyTorch" in caplog.text and "/nowhere/libcuda.so.1" in caplog.text
    runtimes._serves.cache_clear()
