# tests/python/test_cuda.py: executors on GPUs, over the fake driver
import ctypes
import os

import hologram
import numpy as np
import pytest
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
    with pytest.raises(hologram.HologramError, match=r'backend "cuda" has no device 2: the last one is "cuda:1"'):
        hologram.Executor("cuda:2")
    with pytest.raises(ValueError, match="no device's number"):
        hologram.Executor("cuda:x")
