# examples/python/jit.py: NumPy code as fused kernels, without PyTorch
import numpy as np

import hologram


@hologram.jit
def normalised_distances(x, y):
    """Distances of each row of x from each row of y, divided by the largest of its row."""
    d = np.sqrt(((x[:, None] - y) ** 2).sum(axis=-1))
    return d / d.max(axis=1, keepdims=True)


random = np.random.default_rng(0)
y = random.random((20, 3), dtype=np.float32)
for rows in (5, 500):  # sizes are open: the second call compiles nothing
    x = random.random((rows, 3), dtype=np.float32)
    d = np.sqrt(((x[:, None] - y) ** 2).sum(axis=-1))
    np.testing.assert_allclose(normalised_distances(x, y), d / d.max(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)

report = normalised_distances.reports()[0]
print(f"{report['ops_before']} operations, {report['kernels']} kernels")
print("graphs:", len(normalised_distances.reports()))
assert len(normalised_distances.reports()) == 1
