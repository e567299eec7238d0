# tests/python/test_devices.py: executors whose memory the host does not see
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
    with pytest.raises(NotImplementedError, match="not the host's"):
        device.allocate_boundary(0, 1, 64)


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
