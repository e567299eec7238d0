# tests/python/test_cuda_operations.py: every operation of executors on a GPU, over the fake driver: none of its steps is the host's
import ctypes
import os
import re

import hologram
import hologram_ffi as hg
import numpy as np
import pytest
from hologram import _core

LIBRARY = os.path.join(os.path.dirname(os.path.realpath(_core.__file__)), "../../tests/libfakecuda.so")

pytestmark = pytest.mark.skipif(not os.path.exists(LIBRARY), reason="this build has no fake driver")

N = 300
RANDOM = np.random.default_rng(5)
X, Y = RANDOM.standard_normal((2, N)).astype(np.float32)
P, Q = RANDOM.uniform(0.1, 0.9, (2, N)).astype(np.float32)

# Arguments behind the executor by name: arrays are operands, a number of elements is a result, all else goes as it is.
UNARY = "gelu gelu_tanh sigmoid softmax tanh vector_abs vector_neg vector_relu".split()
BINARY = [f"vector_{name}" for name in "add sub mul div min max".split()]
BUFFERS = {
    **{name: (X, N) for name in UNARY},
    **{name: (X, Y, N) for name in BINARY},
    **{name: (X, N, 0.75) for name in ("scalar_add", "scalar_mul")},
    "vector_clip": (X, N, -0.5, 0.5),
    **{f"reduce_{name}": (X, 1) for name in ("sum", "min", "max")},
    **{name: (P, Q, 1) for name in ("mse_loss", "cross_entropy_loss", "binary_cross_entropy_loss")},
    "gemm": (X, Y, 15 * 10, 15, 10, 20),
    "matvec": (X, Y[:20], 15, 15, 20),
}

I = np.array([2, 0, 2, 1, 2], np.int64)
M = X[:60].reshape(5, 12)
HEADS = X[:256].reshape(1, 2, 16, 8)
# Rows of the op table that are not element-wise: operands, attributes, the result where these leave it open.
GRAPHS = {
    "reshape": ([M], None, "f32[12, 5]"),
    "permute": ([M], "axes=[1, 0]", None),
    "expand": ([M[:1]], None, "f32[7, 12]"),
    "slice": ([M], "starts=[1, 2] steps=[1, 3]", "f32[3, 3]"),
    "flip": ([M], "axes=[1]", None),
    "pad": ([M], "low=[1, 2] value=0", "f32[7, 15]"),
    "window": ([M], "axis=1 step=2 dilation=1", "f32[5, 4, 3]"),
    "concat": ([M, M], "axis=1", None),
    **{f"reduce_{name}": ([M], "axes=[1]", None) for name in ("sum", "prod", "max", "min", "argmax", "argmin")},
    **{name: ([M], "axis=1", None) for name in ("cumsum", "cumprod", "cummax", "cummin")},
    "argsort": ([M], "axis=1 descending=1 count=[5]", None),
    "dot_general": ([M, M.T.copy()], "precision=0", None),
    "attention": ([HEADS] * 3, "causal=1 softcap=0 scale=4600000000000000000", None),
    "attention_lse": ([HEADS] * 3, "causal=1 softcap=0 scale=4600000000000000000", None),
    "attention_grad": ([HEADS] * 4 + [HEADS[..., 0].copy()] * 2, "operand=0 causal=1 softcap=0 scale=4600000000000000000", None),
    "take": ([M, I], "axis=0 batch=0", None),
    "scatter": ([M, np.tile(I, 8) % 5, X[:40].reshape(40, 1) + M[0]], "axis=0 mode=1 batch=0", None),
}
MADE = {"constant", "iota", "parameter"}  # rows without operands: parts of other kernels
CALLS = {"host_call", "host_result"}  # of the host's framework, which is what they are for
REFUSED = re.compile("is not defined on|of one float dtype")  # other dtypes
CLOSE = {"gemm", "matvec", "dot_general", "attention", "attention_lse", "attention_grad"}  # by tensor cores, with another order of sums


@pytest.fixture(scope="module")
def pair():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLOGRAM_CUDA_DRIVER", LIBRARY)
        patch.setenv("HOLOGRAM_CUDA_ASSEMBLER", "driver")
        library = ctypes.CDLL(LIBRARY)
        library.fakecuda_count.restype = ctypes.c_int64
        with hologram.Executor("cuda") as there, hologram.Executor("cpu") as here:
            yield there, here, lambda: library.fakecuda_count(b"launches")


@pytest.fixture(scope="module")
def copied(pair):
    """(bytes that copies took from a device to the host, from the host to a device), ever."""
    library = ctypes.CDLL(LIBRARY)
    return lambda: np.array([library.fakecuda_count(b"bytes to hosts"), library.fakecuda_count(b"bytes to devices")])


def on_both(pair, run):
    """Results on the device, of which the host ran no step, and on the CPU; the errors, where it refuses."""
    there, here, launches = pair
    try:
        wanted = run(here)
    except Exception as error:
        assert REFUSED.search(str(error)), error
        with pytest.raises(type(error), match=REFUSED.pattern):
            run(there)
        return None
    before = there.stats()["host_runs"], launches()
    found = run(there)
    assert there.stats()["host_runs"] == before[0], "a step ran on the host"
    assert launches() > before[1], "no kernel ran"
    return found, wanted


def same(name, found, wanted):
    if name in CLOSE:
        tolerance = 2e-3 if wanted.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found, wanted)


def whole(x, dtype=np.int32):
    """As integers, none of which is 0."""
    rounded = (x * 20).astype(dtype)
    return rounded + (rounded == 0)


def call(name, dtype, copied):
    def run(executor):
        made, results = [], []
        for position, given in enumerate(BUFFERS[name]):
            if isinstance(given, np.ndarray):
                made.append(executor.from_numpy(given.astype(dtype) if np.dtype(dtype).kind == "f" else whole(given, dtype)))
            elif isinstance(given, int) and not results:
                made.append(executor.allocate(given, dtype))
                results.append(made[-1])
            else:
                made.append(given)
        before = copied()
        getattr(hologram.ops, name)(executor, *made)
        assert (copied() - before <= 16).all(), f"{name}: more than numbers went by way of the host"
        return results[0].to_numpy(copy=True)

    return run


def test_every_function_on_buffers_runs_on_the_device(pair, copied):
    assert set(BUFFERS) == set(hologram.ops.__all__)
    ran = 0
    for name in BUFFERS:
        for dtype in (np.float32, np.float64, np.float16, np.int32, np.uint8):
            if outcome := on_both(pair, call(name, dtype, copied)):
                same(name, *outcome)
                ran += 1
    assert ran > 60


OVERLAPPING = [("softmax", ()), ("scalar_add", (0.5,)), ("scalar_mul", (3,)), ("vector_clip", (-0.5, 0.5))]


def test_results_lie_in_place_and_in_parts_of_buffers(pair, copied):
    """Other dtypes than float32: over the operand, over a part of it, behind it in one buffer; what is around stays."""

    def run(executor, name, numbers, source, target):
        held = executor.from_numpy(X.astype(np.float16))
        before = copied()
        returned = getattr(hologram.ops, name)(executor, *[held[a:b] for a, b in source], held[slice(*target)], *numbers)
        assert (copied() - before <= 16).all()
        return np.append(held.to_numpy(copy=True), 0 if returned is None else returned)

    for name, numbers in OVERLAPPING:
        for target in ((0, 100), (40, 140), (100, 200)):
            same(name, *on_both(pair, lambda e, n=name, x=numbers, t=target: run(e, n, x, [(0, 100)], t)))
    for name, sources in [("reduce_sum", 1), ("reduce_max", 1), ("mse_loss", 2)]:
        for target in ((0, 1), (200, 250)):
            same(name, *on_both(pair, lambda e, n=name, k=sources, t=target: run(e, n, (), [(0, 100), (100, 200)][:k], t)))
    sizes = (5, 4, 6)
    for target in ((0, 20), (15, 35), (60, 80)):
        same("gemm", *on_both(pair, lambda e, t=target: run(e, "gemm", sizes, [(0, 30), (30, 54)], t)))


def test_elements_and_copies_bring_no_more_than_they_need(pair, copied):
    there, here, _ = pair
    with hologram.Executor("cuda") as beside:
        x, y, z = there.from_numpy(X), beside.allocate(N), here.allocate(N)

        def moved(action, down, up):
            before = copied()
            action()
            assert (copied() - before).tolist() == [down, up]

        moved(lambda: y.copy_from(x), 0, 0)  # two executors on one device
        moved(lambda: z.copy_from(y), 4 * N, 0)
        moved(lambda: y.copy_from(z), 0, 4 * N)
        moved(lambda: x[7], 4, 0)
        moved(lambda: repr(x), 16, 0)
        moved(lambda: x.__setitem__(3, 5.0), 0, 0)  # a fill
        moved(lambda: x.__setitem__(slice(10, 90), 2.5), 0, 0)
        moved(lambda: x.__setitem__(slice(100, 102), [1, 2]), 0, 8)
        moved(lambda: x.__setitem__(slice(200, 210), x[0:10]), 0, 0)
        tensor = hologram.Tensor(x, [5, 60]).T
        kept = []
        for given in (tensor, hologram.Tensor(y, [N])):
            moved(lambda given=given: kept.append(given.__dlpack__(copy=True)), 0, 0)
        want = X.copy()
        want[3], want[10:90], want[100:102], want[200:210] = 5, 2.5, [1, 2], want[:10]
        want[203] = 5
        np.testing.assert_array_equal(x.to_numpy(copy=True), want)
        np.testing.assert_array_equal(z.to_numpy(), X)
        with pytest.raises(IndexError):
            x[N]


def test_written_arguments_stay_on_the_device(pair, copied):
    there = pair[0]

    @hologram.jit
    def step(x, y):
        x += y
        x[2:5] = 0
        return x.sum()

    x, y = there.from_numpy(X.astype(np.float64)), there.from_numpy(Y.astype(np.float64))
    want = X.astype(np.float64)
    for call in range(3):
        before = copied()
        total = step(x, y)
        moved = (copied() - before).tolist()
        want += Y
        want[2:5] = 0
        np.testing.assert_array_equal(x.to_numpy(copy=True), want)
        np.testing.assert_allclose(total, want.sum())
        assert call == 0 or moved == [8, 0], "but in the call that is traced, more than the sum went by way of the host"


def test_every_other_operation_of_graphs_runs_on_the_device(pair):
    assert {row["name"] for row in _core.op_table() if not row["elementwise"]} - set(GRAPHS) - MADE == CALLS

    def run(name):
        operands, attributes, result = GRAPHS[name]

        def go(executor):
            graph = hg.graph_create(0)
            types = [{"float32": "f32", "int64": "i64"}[str(x.dtype)] for x in operands]
            nodes = [hg.graph_parameter(graph, kind, str(list(x.shape))) for kind, x in zip(types, operands)]
            hg.graph_output(graph, hg.graph_apply(graph, name, nodes, attributes, result))
            made = hg.graph_compile(executor.handle, graph, 0)
            held = [executor.from_numpy(x.reshape(-1)) for x in operands]
            (out,) = hg.executable_run(made, [x.handle for x in held])
            return hologram.Tensor._of(executor, out).numpy(copy=True)

        return go

    for name in GRAPHS:
        outcome = on_both(pair, run(name))
        assert outcome, name
        same(name, *outcome)
