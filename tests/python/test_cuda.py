# tests/python/test_cuda.py: executors on GPUs, over the fake driver
import ctypes
import os

import hologram
import numpy as np
import pytest
from checks import refuses
from hologram import _core

LIBRARY = os.path.join(os.path.dirname(os.path.realpath(_core.__file__)), "../../tests/libfakecuda.so")

pytestmark = pytest.mark.skipif(not os.path.exists(LIBRARY), reason="this build has no fake driver")


@pytest.fixture(scope="module")
def driver():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLOGRAM_CUDA_DRIVER", LIBRARY)
        patch.setenv("HOLOGRAM_CUDA_ASSEMBLER", "driver")
        library = ctypes.CDLL(LIBRARY)
        library.fakecuda_inject.argtypes = [ctypes.c_char_p, ctypes.c_int64]
        library.fakecuda_count.restype = ctypes.c_int64
        yield library
        library.fakecuda_inject(b"nothing", 0)


def test_executors_are_made_for_devices_by_number(driver):
    driver.fakecuda_inject(b"devices", 2)
    assert hologram.device_count("cuda") == 2 and hologram.device_count("cpu") == 1
    for name, shown in (("cuda", "cuda"), ("CUDA:0", "cuda"), ("cuda:1", "cuda:1")):
        with hologram.Executor(name) as executor:
            assert executor.backend == shown
            x = executor.from_numpy(np.arange(1000, dtype=np.float32))
            before = [driver.fakecuda_count(b"launches0"), driver.fakecuda_count(b"launches1")]
            y = executor.allocate(1000)
            hologram.ops.vector_add(executor, x, x, y)
            used = [driver.fakecuda_count(b"launches0") - before[0], driver.fakecuda_count(b"launches1") - before[1]]
            assert used == ([0, 1] if shown == "cuda:1" else [1, 0])
            assert np.array_equal(y.to_numpy(copy=True), 2 * np.arange(1000, dtype=np.float32))
            assert x.__dlpack_device__() == (2, int(shown == "cuda:1"))
    refuses(hologram.HologramError, r'backend "cuda" has no device 2: the last one is "cuda:1"', lambda: hologram.Executor("cuda:2"))
    refuses(ValueError, "no device's number", lambda: hologram.Executor("cuda:x"))


def test_memory_is_bounded_by_what_the_device_has(driver):
    with hologram.Executor("cuda") as executor, hologram.Executor("cpu") as host:
        assert executor.stats()["memory_limit"] == 1 << 35 != host.stats()["memory_limit"]
        refuses(MemoryError, "would exceed the memory limit of 34359738368", lambda: executor.allocate((1 << 33) + 1))


def test_operations_are_left_on_streams(driver):
    with hologram.Executor("cuda") as executor:
        stream, incoming, filled = hologram.Stream(executor), hologram.Stream(executor), hologram.Event(executor)
        values = np.linspace(-1, 1, 300, dtype=np.float32)
        x, y, total = executor.allocate(300), executor.allocate(300), executor.allocate(1)
        row, result = np.empty(300, np.float32), np.empty(1, np.float32)
        waits = driver.fakecuda_count(b"waits")
        incoming.write(x, values)
        incoming.record(filled)
        stream.wait_for(filled)
        for _ in range(3):
            hologram.ops.scalar_add(executor, x, x, 0.5, stream=stream)
        hologram.ops.vector_mul(executor, x, x, y, stream=stream)
        assert hologram.ops.reduce_sum(executor, y, total, stream=stream) is None
        stream.read(y, row)
        stream.read(total, result)
        stream.synchronize()
        assert filled.reached and stream.native and executor.backend == "cuda"
        assert np.array_equal(row, (values + 0.5 + 0.5 + 0.5) ** 2) and result[0] == hologram.ops.reduce_sum(executor, y, total)
        assert driver.fakecuda_count(b"waits") > waits
        refuses(TypeError, "argument 'stream' must be a Stream", lambda: hologram.ops.vector_mul(executor, x, x, y, stream=7))
        integers = executor.from_numpy(np.arange(5))
        with pytest.raises(NotImplementedError, match="reduce_sum: on a stream it takes float32 alone"):
            hologram.ops.reduce_sum(executor, integers, integers, stream=stream)
        hologram.ops.vector_add(executor, integers, integers, integers, stream=stream)
        hologram.ops.vector_div(executor, integers, integers, integers, stream=stream)
        refuses(ZeroDivisionError, None, stream.synchronize)


def test_buffers_are_filled_by_the_driver(driver):
    with hologram.Executor("cuda") as executor:
        before = driver.fakecuda_count(b"fills")
        for dtype, value in (("float32", 1.5), ("float16", 2.5), ("uint8", 7), ("int64", 0), ("int64", -1)):
            buffer = executor.allocate(999, dtype=dtype)
            buffer.fill(value)
            assert np.array_equal(buffer.to_numpy(copy=True), np.full(999, value, dtype))
        assert driver.fakecuda_count(b"fills") == before + 10  # those of zeros too
        wide = executor.allocate(999, dtype="float64")
        wide.fill(0.1)  # 8 bytes that are no 4 bytes twice
        assert np.array_equal(wide.to_numpy(copy=True), np.full(999, 0.1))
        assert driver.fakecuda_count(b"fills") == before + 11
