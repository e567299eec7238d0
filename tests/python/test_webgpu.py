# tests/python/test_webgpu.py: executors over wgpu-native; skipped where it finds no adapter
import json
import os
import re

import hologram
import numpy as np
import pytest
from checks import python

adapter = pytest.mark.skipif(hologram.device_count("webgpu") == 0, reason="no adapter: install mesa-vulkan-drivers")
rng = np.random.default_rng(0)
X = rng.standard_normal(600).astype(np.float32)


@adapter
def test_bytes_go_in_and_out():
    with hologram.Executor("webgpu") as device:
        buffer = device.from_numpy(X)
        assert buffer.__dlpack_device__() == (15, 0)
        np.testing.assert_array_equal(buffer.to_numpy(copy=True), X)
        buffer[3] = 7.5
        buffer[595:].fill(2)
        assert buffer[3] == 7.5 and buffer[599] == 2 and buffer[594] == X[594]
        bytes_ = device.from_numpy(np.arange(200, dtype=np.uint8))
        bytes_[7:10].copy_from(bytes_[101:104])  # no whole words
        assert bytes_.to_bytes() == bytes([*range(7), 101, 102, 103, *range(10, 200)])
        other = device.allocate(600)
        other.copy_from(buffer)
        np.testing.assert_array_equal(other.to_numpy(copy=True), buffer.to_numpy(copy=True))
        with pytest.raises(BufferError, match="copy=True"):
            buffer.to_numpy(copy=False)


COPIES = """
import json, threading
import hologram
import numpy as np

X = np.arange(70000, dtype=np.float32)
with hologram.Executor("webgpu") as device:
    x, sum, bytes_ = device.from_numpy(X), device.allocate(X.size), device.from_numpy(np.arange(200, dtype=np.uint8))
    right, done = [], threading.Event()

    def read():  # what kernels of another thread read
        while not done.is_set():
            right.append(bool((x.to_numpy(copy=True) == X).all()))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(20):
        hologram.ops.vector_add(device, x, x, sum)
    done.set()
    reader.join()
    bytes_[7:10].from_bytes(b"abc")  # no whole words
    right += [bool((sum.to_numpy(copy=True) == X + X).all()), bytes_.to_bytes() == bytes([*range(7), *b"abc", *range(10, 200)])]
    print(json.dumps([all(right), hologram._core.Runtime("webgpu").description]))
"""


@adapter
@pytest.mark.parametrize("staging", ["on", "off"])
def test_copies_beside_kernels_leave_the_values(staging):
    right, words = json.loads(python("-c", COPIES, env=os.environ | {"HOLOGRAM_WEBGPU_STAGING": staging}))
    assert right
    assert "memory of the host: no" in words or staging == "off"


@adapter
def test_the_probe_measures_exp():
    words = hologram._core.Runtime("webgpu").description
    assert 0 <= int(re.search(r"exp\(\) within (\d+) ulp", words)[1]) <= 3 + 2 * 88  # WGSL's bound

