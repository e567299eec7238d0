# tests/python/test_sdk.py: hologram.Executor, Buffer, ops, backend, Tensor and DLPack, without PyTorch
import gc
import json
import math
import subprocess
import sys
import weakref

import hologram
import numpy as np
import pytest
from checks import refuses
from hologram import ops

DTYPES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bfloat16".split()


@pytest.fixture(params=["cpu", "null"])
def executor(request):
    """On the host, and on a device whose memory the host does not see: what holds wherever the memory is."""
    with hologram.Executor(request.param) as e:
        yield e


@pytest.fixture
def host():
    with hologram.Executor("cpu") as e:
        yield e


def random(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


# --- executors


def test_executor_backends():
    assert hologram.Executor().backend == "cpu"
    for name in ("cpu", "CPU", "auto", hologram.BackendType.CPU, hologram.BackendType.AUTO):
        assert hologram.Executor(name).backend == "cpu"
    refuses(ValueError, r"tpu.*this build has cpu,( cuda,)?( webgpu,)? interp, null", lambda: hologram.Executor("tpu"))
    refuses(TypeError, "backend", lambda: hologram.Executor(3))
    for name, available in (("cuda", hologram.is_cuda_available()), ("metal", hologram.is_metal_available())):
        if not available:  # asked in a process of its own: this one may have a driver of other tests'
            program = f"import hologram; hologram.Executor({name!r})"
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
            assert f'HologramError: hologram_new_executor_with_backend: backend "{name}" is not available' in done.stderr
    assert issubclass(hologram.HologramError, RuntimeError)
    for name in hologram._core.Runtime.backends():
        assert hologram.backend.validate_backend(name.upper()) == name
        if name == "cuda" and not hologram.is_cuda_available():
            continue  # in this build, but not on this machine
        with hologram.Executor(name) as executor:
            assert executor.backend == name


def test_backend_helpers(monkeypatch):
    assert hologram.backend.validate_backend("CUDA") == "cuda"
    assert hologram.backend.validate_backend(hologram.BackendType.METAL) == "metal"
    refuses(ValueError, "cpu, metal, cuda, auto", lambda: hologram.backend.validate_backend("tpu"))
    assert hologram.get_default_backend() == hologram.Executor().backend == "cpu"
    monkeypatch.setenv("HOLOGRAM_AUTO", "metal,vulkan,cpu")
    best = "webgpu" if hologram.device_count("metal") + hologram.device_count("vulkan") else "cpu"
    assert hologram.Executor().backend == best
    assert (hologram.get_default_backend() == "cpu") == (best == "cpu")


def test_context_manager_cleans_up_and_lets_exceptions_through():
    with pytest.raises(KeyError), hologram.Executor() as executor:
        buffer = executor.allocate(4)
        raise KeyError("mine")
    assert executor.closed and buffer.freed
    executor.cleanup()  # again
    for use in (
        lambda: executor.handle, lambda: executor.backend, lambda: executor.allocate(3), lambda: buffer.size, lambda: buffer.to_numpy(),
        lambda: memoryview(buffer), lambda: ops.vector_abs(executor, buffer, buffer), lambda: executor.__enter__(),
    ):  # fmt: skip
        refuses(hologram.HologramError, None, use)
    assert "cleaned up" in repr(executor) and "freed" in repr(buffer)


def test_buffer_keeps_its_executor():
    buffer = hologram.Executor().allocate(8)
    gc.collect()
    buffer.fill(3)
    assert buffer.executor.backend == "cpu"
    gone = weakref.ref(buffer.executor)
    del buffer
    gc.collect()
    assert gone() is None


def test_allocate(executor):
    buffer = executor.allocate(10)
    assert (buffer.size, len(buffer), buffer.nbytes, buffer.itemsize, buffer.dtype) == (10, 10, 40, 4, np.float32)
    assert not buffer.to_numpy().any()
    for size in (0, -1):
        refuses(ValueError, "size", lambda: executor.allocate(size))
    refuses(TypeError, None, lambda: executor.allocate(2.5))
    refuses(NotImplementedError, "complex64", lambda: executor.allocate(4, np.complex64))
    large = executor.allocate(3073)
    assert large.pool == "linear" and large.class_index is None
    assert executor.allocate(8, linear=True).pool == "linear"
    executor.set_memory_limit(1 << 20)
    refuses(MemoryError, "limit", lambda: executor.allocate(1 << 20))
    executor.allocate(1 << 10, linear=True).fill(1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(executor, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    values = np.array([0, 1, 1, 0, 1, 1, 0]).astype(dtype)
    buffer = executor.allocate(7, dtype)
    buffer.from_numpy(values)
    assert buffer.dtype == values.dtype
    assert buffer.to_numpy().tobytes() == values.tobytes() == buffer.to_bytes()
    buffer.fill(1)
    assert (buffer.to_numpy() == np.ones(7, dtype)).all()
    other = executor.allocate(7, dtype)
    other.copy_from(buffer)
    assert other.to_bytes() == buffer.to_bytes() and str(values.dtype) in repr(buffer)
    if executor.backend == "cpu":
        view = buffer.to_numpy(copy=False)
        assert view.dtype == buffer.dtype and view.ctypes.data == buffer.ptr
        buffer.fill(0)
        assert not view.any()


def test_boundary(host):
    executor = host
    small = executor.allocate(10)
    assert small.pool == "boundary" and 0 <= small.class_index < 96
    buffer = executor.allocate_boundary(7, 48, 256)
    assert (buffer.size, buffer.class_index, buffer.pool) == (3072, 7, "boundary")
    assert executor.boundary_pointer(7, 0, 0) == buffer.ptr
    assert executor.boundary_address(buffer.ptr + 256 + 5) == (7, 1, 5)
    assert executor.allocate_boundary(8, 1, 8, "float64").size == 1
    refuses(hologram.HologramError, "class 7 is taken", lambda: executor.allocate_boundary(7, 1, 4))
    for arguments in ((96, 1, 4), (-1, 1, 4), (0, 49, 4), (0, 0, 4), (0, 1, 257)):
        refuses(ValueError, None, lambda: executor.allocate_boundary(*arguments))
    buffer.free()
    assert executor.allocate_boundary(7, 1, 4).size == 1
    kept = [executor.allocate(3072) for _ in range(200)]  # more than there are classes
    assert executor.free_classes == 0 and kept[-1].pool == "linear"


# --- buffers


def test_from_numpy_errors(executor):
    buffer = executor.allocate(6)
    refuses(TypeError, "list", lambda: buffer.from_numpy([1, 2, 3]))
    refuses(ValueError, "float64.*float32", lambda: buffer.from_numpy(np.zeros(6)))
    refuses(ValueError, "5 elements.*6", lambda: buffer.from_numpy(np.zeros(5, np.float32)))
    refuses(ValueError, "dtype", lambda: buffer.from_numpy(np.zeros(6, ">f4")))
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3).T
    buffer.from_numpy(matrix)
    assert buffer.to_numpy().tolist() == [0, 3, 1, 4, 2, 5]
    buffer.free()
    buffer.free()
    refuses(hologram.HologramError, "freed", lambda: buffer.from_numpy(matrix))


def test_bytes(executor):
    buffer = executor.allocate(4)
    for data in (bytes(range(16)), bytearray(range(16)), memoryview(bytes(range(16))), np.arange(16, dtype=np.uint8)):
        buffer.fill(0)
        buffer.from_bytes(data)
        assert buffer.to_bytes() == bytes(range(16))
    for size in (15, 17):
        refuses(ValueError, "16", lambda: buffer.from_bytes(bytes(size)))
    before = executor.stats()["bytes_copied_in"]
    buffer.from_bytes(bytes(16))
    assert executor.stats()["bytes_copied_in"] - before == 16  # one copy


def test_views_share_memory(host):
    executor = host
    buffer = executor.from_numpy(random(100))
    view = buffer.to_numpy(copy=False)
    memory = memoryview(buffer)
    array = np.asarray(buffer)
    imported = np.from_dlpack(buffer)
    assert {view.ctypes.data, array.ctypes.data, imported.ctypes.data} == {buffer.ptr}
    assert (memory.format, memory.nbytes, memory.readonly, memory.shape) == ("f", 400, False, (100,))
    assert not array.flags.owndata
    view[3] = 42
    assert memory[3] == array[3] == imported[3] == buffer[3] == 42
    ops.vector_neg(executor, buffer, buffer)
    assert view[3] == memory[3] == array[3] == imported[3] == -42
    memory[4] = 7.0
    assert buffer.to_numpy()[4] == 7 and buffer[2:5].ptr == buffer.ptr + 8
    assert np.array(buffer, dtype=np.float64).dtype == np.float64


def test_resize(executor):
    buffer = executor.from_numpy(random(10))
    for kind, end in (("slice", "free"), ("view", "release"))[: 1 + (executor.backend == "cpu")]:
        held = buffer[:3] if kind == "slice" else memoryview(buffer)
        refuses(BufferError, None, lambda: buffer.resize(20))
        getattr(held, end)()
    buffer.resize(20)
    assert buffer.to_numpy().tolist() == [*random(10).tolist(), *[0] * 10]
    buffer.resize(2)
    assert buffer.to_numpy().tolist() == random(2).tolist()
    refuses(ValueError, None, lambda: buffer.resize(-1))


def test_slices_and_elements(executor):
    buffer = executor.from_numpy(np.arange(10, dtype=np.int32))
    part = buffer[2:5]
    part.fill(-1)
    assert buffer.to_numpy().tolist() == [0, 1, -1, -1, -1, 5, 6, 7, 8, 9]
    assert len(buffer[20:]) == 0
    buffer[9] = 3
    assert buffer[-1] == 3 and isinstance(buffer[0], int)
    refuses(IndexError, None, lambda: buffer[10])
    refuses(ValueError, "step", lambda: buffer[::2])
    refuses(ValueError, None, lambda: buffer.slice(8, 3))


def test_copy_from(executor):
    a, b = executor.from_numpy(random(5)), hologram.Executor().allocate(5)
    b.copy_from(a)  # on the host, wherever a is
    assert b.to_bytes() == a.to_bytes()
    b.fill(2)
    a.copy_from(b)
    assert a.to_numpy().tolist() == [2] * 5
    refuses(ValueError, "elements", lambda: a.copy_from(executor.allocate(4)))
    refuses(ValueError, "float64", lambda: a.copy_from(executor.allocate(5, "f64")))


def test_wrap(host):
    executor = host
    array = random(2000)
    buffer = executor.wrap(array)
    assert buffer.ptr == array.ctypes.data and not buffer.copied and buffer.pool == "foreign"
    buffer.fill(5)
    assert array[0] == 5
    gone, want = weakref.ref(array), array.tolist()
    del array
    gc.collect()
    assert gone() is not None and buffer.to_numpy().tolist() == want
    buffer.free()
    assert gone() is None
    frozen = random(10)
    frozen.flags.writeable = False
    raw = np.zeros(41, np.uint8)[1:].view(np.float32)
    for array in (random(20)[::2], frozen, raw):
        copy = executor.wrap(array)
        assert copy.copied and copy.to_numpy().tolist() == array.tolist()
    refuses(TypeError, None, lambda: executor.wrap([1.0]))
    refuses(NotImplementedError, None, lambda: executor.wrap(np.zeros(3, complex)))


def test_reprs(executor):
    buffer = executor.from_numpy(np.array([1.5, -2, 3, 4, 5], np.float32))
    where = "linear memory" if buffer.class_index is None else f"boundary class {buffer.class_index}"
    assert repr(buffer) == f"<hologram.Buffer of 5 float32 in {where}: 1.5, -2, 3, 4, …>"
    assert "1 buffers, " in repr(executor) and f"on {executor.backend}: " in repr(executor)
    assert "row-major" in repr(hologram.Tensor(buffer, (5,)))


# --- operations

BINARY = dict(add=np.add, sub=np.subtract, mul=np.multiply, div=np.divide, min=np.minimum, max=np.maximum)


SIZES = [1, 2, 7, 31, 64, 1023, 1024, 1025, 3072, 3073]


@pytest.mark.parametrize("n", [*SIZES, 1_000_003])
@pytest.mark.parametrize("name", BINARY)
def test_binary(executor, name, n):
    x, y = random(n, 1), random(n, 2)
    x[:7:2], y[1:4] = (np.nan, np.inf, 0, 1)[: len(x[:7:2])], (np.nan, 0, np.inf)[: len(y[1:4])]
    a, b, c = executor.from_numpy(x), executor.from_numpy(y), executor.allocate(n)
    function = getattr(ops, f"vector_{name}")
    with np.errstate(all="ignore"):
        want = BINARY[name](x, y)
    function(executor, a, b, c)
    np.testing.assert_array_equal(c.to_numpy(), want)
    function(executor, a, b, c=a, n=n)  # in place, by name
    np.testing.assert_array_equal(a.to_numpy(), want)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "int64", "uint16"])
def test_binary_of_other_dtypes(executor, dtype):
    x = np.array([1, 2, 3, 100, 7], dtype)
    y = np.array([5, 1, 2, 3, 7], dtype)
    a, b, c = executor.from_numpy(x), executor.from_numpy(y), executor.allocate(5, dtype)
    for name in ("add", "sub", "mul", "min", "max"):
        getattr(ops, f"vector_{name}")(executor, a, b, c)
        np.testing.assert_array_equal(c.to_numpy(), BINARY[name](x, y), err_msg=name)


def erf(x):
    return np.vectorize(math.erf)(x)


# The function in double precision, and how many units in the last place a result may be off, or by how much.
UNARY = dict(
    vector_abs=(np.abs, 0, 0), vector_neg=(np.negative, 0, 0), vector_relu=(lambda x: np.maximum(x, 0), 0, 0),
    sigmoid=(lambda x: 1 / (1 + np.exp(-x)), 1, 0), tanh=(np.tanh, 1, 0), gelu=(lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, 4, 2e-7),
    gelu_tanh=(lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), 1, 5e-7),
    softmax=(lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(), 16, 0),
)  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(executor, name):
    function, units, apart = UNARY[name]
    for n in (*SIZES, 20_003):
        x = 2 * random(n, 3)
        if n >= 7 and name != "softmax":
            x[:3] = np.nan, 1e4, -1e4
        a, c = executor.from_numpy(x), executor.allocate(n)
        getattr(ops, name)(executor, a, c)
        getattr(ops, name)(executor, a, a)
        got, in_place = c.to_numpy(), a.to_numpy()
        np.testing.assert_array_equal(got, in_place)
        with np.errstate(all="ignore"):
            want = function(x.astype(np.float64))
        rounded = np.abs(want.astype(np.float32))
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        far = np.maximum(apart, (units + 0.51) * (np.nextafter(rounded, np.float32(np.inf)) - rounded).astype(np.float64))
        assert (np.isnan(want) | (np.abs(got - want) <= far)).all(), n
        assert name != "softmax" or got.sum(dtype=np.float64) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_scalars_and_clip(executor, dtype):
    x = np.array([-5, -1, 0, 2, 9], dtype)
    a, c = executor.from_numpy(x), executor.allocate(5, dtype)
    ops.scalar_add(executor, a, c, 3)
    assert c.to_numpy().tolist() == (x + 3).tolist()
    ops.scalar_mul(executor, a, c, scalar=2, n=2)
    assert c.to_numpy().tolist() == [*(x * 2)[:2].tolist(), *(x + 3)[2:].tolist()]
    ops.vector_clip(executor, a, c, -1, 2)
    assert c.to_numpy().tolist() == [-1, -1, 0, 2, 2]
    for low, high in ((2, 1), (math.nan, 1)):
        refuses(ValueError, "low", lambda: ops.vector_clip(executor, a, c, low, high))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reductions_and_losses(executor, dtype):
    rng = np.random.default_rng(0)
    p, t = rng.uniform(0.05, 0.95, 1000).astype(dtype), rng.uniform(0, 1, 1000).astype(dtype)
    a, b, out = executor.from_numpy(p), executor.from_numpy(t), executor.allocate(3, dtype)
    p64, t64 = p.astype(np.float64), t.astype(np.float64)
    want = {
        "reduce_sum": p64.sum(),
        "reduce_min": p64.min(),
        "reduce_max": p64.max(),
        "mse_loss": ((p64 - t64) ** 2).mean(),
        "cross_entropy_loss": -(t64 * np.log(p64)).mean(),
        "binary_cross_entropy_loss": -(t64 * np.log(p64) + (1 - t64) * np.log1p(-p64)).mean(),
    }
    for name, value in want.items():
        operands = (a,) if name.startswith("reduce") else (a, b)
        got = getattr(ops, name)(executor, *operands, out)
        assert isinstance(got, float) and got == pytest.approx(value, rel=1e-6) and out[0] == np.dtype(dtype).type(got)
    assert ops.reduce_sum(executor, a, executor.allocate(1, dtype), 0) == 0  # one element is enough
    for name, operands in (("reduce_max", (a,)), ("reduce_min", (a,)), ("mse_loss", (a, b))):
        refuses(ValueError, None, lambda: getattr(ops, name)(executor, *operands, out, 0))
    # Certain predictions: logarithms stop at -100, and 0 log 0 counts as 0.
    q, u = executor.from_numpy(np.array([0, 1], dtype)), executor.from_numpy(np.ones(2, dtype))
    assert ops.binary_cross_entropy_loss(executor, q, u, out) == 50 and ops.cross_entropy_loss(executor, q, q, out) == 0


@pytest.mark.parametrize("sizes", [(2, 3, 5), (7, 1, 9), (1, 8, 3), (1, 1, 1), (33, 17, 65), (128, 96, 400)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_products(executor, sizes, dtype):
    m, n, k = sizes
    rng = np.random.default_rng(1)
    x, y = rng.integers(-9, 9, (m, k)).astype(dtype), rng.integers(-9, 9, (k, n)).astype(dtype)
    a, b, c = executor.from_numpy(x), executor.from_numpy(y), executor.allocate(m * n, dtype)
    ops.gemm(executor, a, b, c, m, n, k)
    np.testing.assert_array_equal(c.to_numpy().reshape(m, n), x @ y)
    v, w = executor.from_numpy(y[:, 0].copy()), executor.allocate(m, dtype)
    ops.matvec(executor, a, v, w, m, k)
    np.testing.assert_array_equal(w.to_numpy(), x @ y[:, 0])
    for wrong in ((m + 1, n, k), (0, n, k), (65536, 65536, 65536)):
        refuses(ValueError, None, lambda: ops.gemm(executor, a, b, c, *wrong))
    if dtype == "float32":  # others are computed apart
        refuses(ValueError, "overlaps", lambda: ops.gemm(executor, c, c, c, 1, 1, 1))


def test_operation_errors(executor):
    a, b, c = (executor.allocate(8) for _ in range(3))
    foreign = hologram.Executor().allocate(8)
    cases = [
        (TypeError, "Executor", lambda: ops.vector_add(a, a, b, c)),
        (TypeError, "'b' must be a Buffer", lambda: ops.vector_add(executor, a, 3, c)),
        (TypeError, "'c' is missing", lambda: ops.vector_add(executor, a, b)),
        (TypeError, "unexpected argument 'd'", lambda: ops.vector_add(executor, a, b, c, d=1)),
        (TypeError, "too many", lambda: ops.vector_add(executor, a, b, c, 1, 2)),
        (TypeError, "'n' must be an integer", lambda: ops.vector_add(executor, a, b, c, 1.5)),
        (ValueError, "'n' must not be negative", lambda: ops.vector_add(executor, a, b, c, -1)),
        (ValueError, "8 elements, 9 are needed", lambda: ops.vector_add(executor, a, b, c, 9)),
        (ValueError, "another executor", lambda: ops.vector_add(executor, foreign, b, c)),
        (ValueError, "overlap", lambda: ops.vector_abs(executor, a[:7], a[1:])),
        (ValueError, "dtype|must be", lambda: ops.vector_abs(executor, a, executor.allocate(8, "i32"))),
    ]
    for error, message, use in cases:
        refuses(error, message, use)
    a.free()
    refuses(hologram.HologramError, "'a' was freed", lambda: ops.vector_add(executor, a, b, c))
    ops.vector_add(executor, b, b, c)  # a failure leaves everything usable


def test_ops_wrap_every_function_on_buffers():
    import hologram_ffi

    flat = {n.removesuffix("_f32") for n in hologram_ffi.__all__ if n.endswith("_f32") and n != "along_axis_f32"}
    assert flat == set(ops.__all__)
    for name in ops.__all__:
        assert "Raises:" in getattr(ops, name).__doc__


# --- tensors and DLPack


def test_tensors(executor):
    x = np.arange(24, dtype=np.float32)
    t = hologram.Tensor(executor.from_numpy(x), (2, 3, 4))
    m = x.reshape(2, 3, 4)
    assert (t.shape, t.strides, t.ndim, t.size, t.numel(), t.offset) == ((2, 3, 4), (12, 4, 1), 3, 24, 24, 0)
    for view, want in [
        (t.permute((2, 0, 1)), m.transpose(2, 0, 1)), (t.T, m.T), (t.select(1, 2), m[:, 2]), (t.narrow(2, 1, 2), m[:, :, 1:3]),
        (t.slice(2, 0, 4, 2), m[:, :, ::2]), (t.slice(2, -1, -1, 3), m[:, :, ::3]), (t.slice(2, 1, 3, -1), m[:, :, 1:3]),
        (t.reshape((4, -1)), m.reshape(4, 6)), (t.select(0, 1).transpose(), m[1].T), (t.view_1d(), x), (t.T.contiguous(), m.T),
    ]:  # fmt: skip
        np.testing.assert_array_equal(view.numpy(copy=True), want)
        np.testing.assert_array_equal(np.asarray(view), want)
    assert not t.T.is_contiguous()
    product = t.select(0, 1).matmul(t.select(0, 1).transpose())
    np.testing.assert_array_equal(product.numpy(copy=True), m[1] @ m[1].T)
    strided, narrow = t.slice(2, 0, 4, 3).select(0, 1), t.select(0, 0).narrow(1, 1, 2)
    np.testing.assert_array_equal(strided.matmul(narrow.T).numpy(copy=True), m[1, :, ::3] @ m[0, :, 1:3].T)
    np.testing.assert_array_equal(t.select(0, 0).select(0, 1).broadcast_to((3, 4)).numpy(copy=True), np.broadcast_to(m[0, 1], (3, 4)))
    small = executor.allocate(3)
    for wrong in (lambda: strided.T.matmul(narrow.T), t.T.view_1d, lambda: t.reshape((5, 5)), lambda: hologram.Tensor(small, (2, 2))):
        refuses(ValueError, None, wrong)
    refuses(ValueError, "-1|go into", lambda: t.reshape((7, -1)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_arrays_of_tensors_outlive_the_executor(dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    with hologram.Executor() as e:
        buffer = e.from_numpy((np.arange(8) % 3).astype(dtype))
        array = hologram.Tensor(buffer, (2, 3), offset=1).T.numpy()
        assert array.ctypes.data == buffer.ptr + buffer.itemsize
        array[0, 0] = 1  # not read-only
        buffer.free()
    np.testing.assert_array_equal(array.astype(np.float32), np.array([[1, 1], [2, 2], [0, 0]], dtype).astype(np.float32))


def test_from_dlpack():
    array = np.arange(12, dtype=np.float64).reshape(3, 4)
    t = hologram.from_dlpack(array)
    assert t.ptr == array.ctypes.data and not t.copied and t.shape == (3, 4)
    strided = hologram.from_dlpack(array[:, ::2])
    assert strided.ptr == array.ctypes.data and strided.strides == (4, 2)
    np.testing.assert_array_equal(strided.numpy(), array[:, ::2])
    assert hologram.from_dlpack(array[::-1]).copied
    frozen = array.copy()
    frozen.flags.writeable = False
    assert hologram.from_dlpack(frozen).copied
    gone, want = weakref.ref(array), array.tolist()
    del array, strided
    gc.collect()
    assert gone() is not None and t.numpy().tolist() == want
    del t
    gc.collect()
    assert gone() is None
    refuses(TypeError, "__dlpack__", lambda: hologram.from_dlpack([1, 2]))
    buffer = hologram.default_executor().from_numpy(np.arange(3.0))
    assert hologram.from_dlpack(buffer).ptr == buffer.ptr


def test_dlpack_capsules(host):
    executor = host
    buffer = executor.from_numpy(random(10))
    assert buffer.__dlpack_device__() == (1, 0)
    busy = executor.stats()["boundary_classes_busy"]
    for options in ({}, {"max_version": (1, 0)}):
        capsule = buffer.__dlpack__(**options)
        assert "dltensor" in repr(capsule)
        del capsule  # never consumed: its deleter runs all the same
    tensor = hologram.from_dlpack(buffer, executor)
    assert tensor.ptr == buffer.ptr
    copied = np.from_dlpack(buffer, copy=True) if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else None
    assert copied is None or copied.ctypes.data != buffer.ptr
    buffer.free()
    assert executor.stats()["boundary_classes_busy"] >= busy  # the tensor holds it
    del tensor, copied
    gc.collect()
    assert executor.stats()["boundary_classes_busy"] == busy - 1
    refuses(BufferError, None, lambda: executor.allocate(3).__dlpack__(dl_device=(2, 0)))
    for whole in (executor.allocate(3), hologram.Tensor(executor.allocate(3), (3,))):
        refuses(BufferError, "stream must be None", lambda: whole.__dlpack__(stream=1))
    from hologram import _core

    capsule = executor.from_numpy(random(3)).__dlpack__()
    handle, _ = _core.dlpack_consume(executor.handle, capsule)
    refuses(ValueError, "consumed", lambda: _core.dlpack_consume(executor.handle, capsule))
    _core.ffi.tensor_cleanup(handle)


def test_exit_with_everything_alive():
    code = (
        "import hologram, numpy as np\n"
        "e = hologram.Executor(); b = e.from_numpy(np.ones(4)); w = e.wrap(np.ones(4)); v = memoryview(b)\n"
        "t = hologram.from_dlpack(np.ones(3)); a = np.asarray(b)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert json.dumps(hologram.default_executor().stats()) and hologram.default_executor().trim() >= 0


def test_missing_native_module(tmp_path):
    import pathlib
    import shutil

    package = tmp_path / "hologram"
    package.mkdir()
    shutil.copy(pathlib.Path(hologram.__file__).resolve(), package / "__init__.py")
    # -S: an editable installation finds the package wherever it is imported from.
    command = [sys.executable, "-S", "-c", "import hologram"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={})
    assert "pip install hologram-compute" in done.stderr and "make build" in done.stderr
