# examples/python/buffers.py: an executor, its buffers and single operations, without PyTorch
import numpy as np

import hologram

x, y = np.linspace(-1, 1, 1000, dtype=np.float32), np.linspace(0, 1, 1000, dtype=np.float32)
with hologram.Executor() as executor:
    a, b, out = executor.from_numpy(x), executor.from_numpy(y), executor.allocate(1000)
    hologram.ops.vector_mul(executor, a, b, out)
    hologram.ops.sigmoid(executor, out, out)  # an operand may be the result
    np.testing.assert_allclose(out.to_numpy(), 1 / (1 + np.exp(-x * y)), rtol=1e-6)

    view = out.to_numpy(copy=False)  # shares the buffer's memory
    view[:] = 2
    total = hologram.ops.reduce_sum(executor, out, executor.allocate(1))
    print(f"sum {total}")
    assert total == 2000
