# tests/python/test_devices.py: executors whose memory the host does not see
import threading

import hologram
import numpy as np
import pytest

rng = np.random.default_rng(0)
X = rng.standard_normal(600).astype(np.float32)
Y = rng.standard_normal(600).astype(np.float32)


@pytest.fixture
def device():
    with hologram.Executor("null") as executor:
        yield executor


def test_bytes_go_in_and_out_by_copies(device):
    buffer = device.from_numpy(X)
    assert buffer.pool == "linear" and buffer.__dlpack_device__() == (12, 0)
    np.testing.assert_array_equal(buffer.to_numpy(copy=True), X)
    np.testing.assert_array_equal(np.asarray(buffer[10:20]), X[10:20])
    assert buffer.to_bytes() == X.tobytes()
    buffer[3] = 7.5
    buffer[595:].fill(2)
    assert buffer[3] == 7.5 and buffer[599] == 2 and buffer[594] == X[594]
    other = device.allocate(600)
    assert not other.to_numpy(copy=True).any()
    other.copy_from(buffer)
    assert other[3] == 7.5 and "7.5" in repr(other)
    other.resize(700)
    assert other[3] == 7.5 and other[699] == 0
    assert device.wrap(X.copy()).copied


def test_views_of_its_memory_are_refused(device):
    buffer = device.from_numpy(X)
    with pytest.raises(BufferError, match="copy=True"):
        buffer.to_numpy(copy=False)
    with pytest.raises(hologram.HologramError, match="not the host's"):
        memoryview(buffer)
    tensor = hologram.Tensor(buffer, (20, 30))
    with pytest.raises(BufferError, match="copy=True"):
        tensor.numpy()
    for use in (
        lambda: device.allocate_boundary(0, 1, 64),
        lambda: device.boundary_pointer(0, 0, 0),
        lambda: device.boundary_address(0),
        lambda: buffer.ptr,
        lambda: tensor.ptr,
    ):
        with pytest.raises(NotImplementedError, match="not the host's"):
            use()
    assert device.free_classes == 0
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        with pytest.raises((BufferError, RuntimeError)):
            np.from_dlpack(buffer)
        with pytest.raises((BufferError, ValueError)):
            np.asarray(tensor, copy=False)


def test_jit_runs_where_its_buffers_are(device):
    @hologram.jit
    def f(x, y):
        return np.exp(x) * y + 1

    a, b = device.from_numpy(X), device.from_numpy(Y)
    want = f(X, Y)
    np.testing.assert_array_equal(f(a, b), want)
    np.testing.assert_array_equal(f(a, Y), want)  # the array is brought there
    np.testing.assert_array_equal(f(X, Y), want)
    calls = [g._call.executable.backend for graphs in f._graphs.values() for g in graphs]
    assert sorted(calls) == ["cpu", "null"]
    out = device.allocate(600)
    f(a, b, out=out)
    np.testing.assert_array_equal(out.to_numpy(), want)
    out.fill(0)
    with pytest.raises(ValueError, match="another device"):
        f(X, Y, out=out)
    with hologram.Executor("cpu") as host:
        with pytest.raises(ValueError, match="cpu and null"):
            f(host.from_numpy(X), b)
        shared = host.allocate(600)
        f(a, b, out=shared)
        np.testing.assert_array_equal(shared.to_numpy(), want)
    kept = f._flat
    freed = device.from_numpy(X)
    freed.free()
    with pytest.raises(hologram.HologramError, match="freed"):
        f(freed, b)
    assert f._flat is kept


def test_dlpack_stays_on_the_device(device):
    buffer = device.from_numpy(X)
    assert "dltensor" in repr(buffer.__dlpack__(stream=1, max_version=(1, 0)))  # never consumed
    with pytest.raises(BufferError, match=r"device \(12, 0\)"):
        buffer.__dlpack__(dl_device=(1, 0))
    with hologram.Executor("null") as other:
        seen = hologram.from_dlpack(hologram.Tensor(buffer, (20, 30)).T, other)
        assert not seen.copied and (seen.shape, seen.strides) == ((30, 20), (1, 30))
        buffer[0] = 5.5
        assert seen.numpy(copy=True)[0, 0] == 5.5
        fresh = hologram.from_dlpack(Copied(buffer), other)
        buffer[0] = 6.5
        assert fresh.numpy(copy=True)[0] == 5.5
        buffer.free()
        assert seen.numpy(copy=True)[0, 0] == 6.5, "a tensor keeps the memory"
    with pytest.raises(NotImplementedError, match=r"DLPack device \(12, 0\); expected the host's"):
        hologram.from_dlpack(device.from_numpy(X), hologram.default_executor())
    brought = hologram.from_dlpack(X.reshape(20, 30)[::-1, ::2], device)
    assert brought.copied
    np.testing.assert_array_equal(brought.numpy(copy=True), X.reshape(20, 30)[::-1, ::2])


class Copied:
    """An object whose capsule is a copy."""

    def __init__(self, source):
        self.source = source

    def __dlpack__(self, **options):
        return self.source.__dlpack__(**options, copy=True)


def test_threads_share_a_device(device):
    failures = []

    def work(seed):
        try:
            x = np.random.default_rng(seed).standard_normal(500).astype(np.float32)
            for _ in range(30):
                a, b = device.from_numpy(x), device.allocate(500)
                hologram.ops.vector_add(device, a, a, b)
                t = hologram.Tensor(b, (20, 25))
                np.testing.assert_array_equal(t.T.numpy(copy=True), (x + x).reshape(20, 25).T)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert device.stats()["tensors"] == 0


def test_memory_comes_back(device):
    device.set_memory_limit(1 << 20)
    for _ in range(100):
        device.from_numpy(np.ones(200_000, np.float32)).free()
    with pytest.raises(MemoryError, match="limit"):
        device.allocate(1 << 19, "float64")
    stats = device.stats()
    assert stats["linear_bytes"] == 0 and stats["linear_peak"] == 800_000


@pytest.mark.parametrize("backend", ["interp", "null"])
def test_operations_leave_the_cpus_bits(backend):
    results = []
    for name in ("cpu", backend):
        with hologram.Executor(name) as executor:
            a, b, c = executor.from_numpy(X), executor.from_numpy(Y), executor.allocate(600)
            found = []
            for function in (hologram.ops.vector_add, hologram.ops.vector_mul, hologram.ops.vector_max):
                function(executor, a, b, c)
                found.append(c.to_bytes())
            hologram.ops.vector_clip(executor, a, c, -0.5, 0.5)
            hologram.ops.gelu(executor, c, c)
            hologram.ops.softmax(executor, c, c)
            found.append(c.to_bytes())
            hologram.ops.reduce_sum(executor, a, c)
            hologram.ops.mse_loss(executor, a, b, executor.allocate(1))
            found.append(c[0])
            hologram.ops.gemm(executor, a, b, c, 20, 30, 20)
            hologram.ops.matvec(executor, a, b, c, 20, 30)
            found.append(c.to_bytes())
            t = hologram.Tensor(a, (20, 30))
            found.append((t @ hologram.Tensor(b, (30, 20))).numpy(copy=True).tobytes())
            found.append(t.transpose().contiguous().numpy(copy=True).tobytes())
            results.append(found)
    assert results[0] == results[1]
