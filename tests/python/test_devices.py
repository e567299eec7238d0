# tests/python/test_devices.py: executors whose memory the host does not see
import hologram
import numpy as np
import pytest
from checks import refuses

rng = np.random.default_rng(0)
X = rng.standard_normal(600).astype(np.float32)
Y = rng.standard_normal(600).astype(np.float32)


@pytest.fixture
def device():
    with hologram.Executor("null") as executor:
        yield executor


def test_views_of_its_memory_are_refused(device):
    buffer = device.from_numpy(X)
    refuses(BufferError, "copy=True", lambda: buffer.to_numpy(copy=False))
    refuses(hologram.HologramError, "not the host's", lambda: memoryview(buffer))
    tensor = hologram.Tensor(buffer, (20, 30))
    refuses(BufferError, "copy=True", tensor.numpy)
    for use in (
        lambda: device.allocate_boundary(0, 1, 64),
        lambda: device.boundary_pointer(0, 0, 0),
        lambda: device.boundary_address(0),
        lambda: buffer.ptr,
        lambda: tensor.ptr,
    ):
        refuses(NotImplementedError, "not the host's", use)
    assert device.free_classes == 0
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        refuses((BufferError, RuntimeError), None, lambda: np.from_dlpack(buffer))
        refuses((BufferError, ValueError), None, lambda: np.asarray(tensor, copy=False))


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
    refuses(ValueError, "another device", lambda: f(X, Y, out=out))
    with hologram.Executor("cpu") as host:
        refuses(ValueError, "cpu and null", lambda: f(host.from_numpy(X), b))
        shared = host.allocate(600)
        f(a, b, out=shared)
        np.testing.assert_array_equal(shared.to_numpy(), want)
    kept = f._flat
    freed = device.from_numpy(X)
    freed.free()
    refuses(hologram.HologramError, "freed", lambda: f(freed, b))
    assert f._flat is kept


def test_dlpack_stays_on_the_device(device):
    buffer = device.from_numpy(X)
    assert "dltensor" in repr(buffer.__dlpack__(stream=1, max_version=(1, 0)))  # never consumed
    refuses(BufferError, r"device \(12, 0\)", lambda: buffer.__dlpack__(dl_device=(1, 0)))
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
