# examples/python/train_numpy.py: training with NumPy alone: forward, gradients and update in one compiled function
import hologram
import numpy as np

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, (512, 2)).astype(np.float32)
target = ((x**2).sum(1, keepdims=True) < 2).astype(np.float32)  # inside of a circle
weights = [rng.normal(0, 0.7, (2, 32)), np.zeros(32), rng.normal(0, 0.2, (32, 1)), np.zeros(1)]
weights = [w.astype(np.float32) for w in weights]
averages = [np.zeros_like(w) for w in weights]


def chance(x, weights):
    w1, b1, w2, b2 = weights
    hidden = np.tanh(x @ w1 + b1)
    return hidden, 1 / (1 + np.exp(-(hidden @ w2 + b2)))


@hologram.jit
def step(x, target, weights, averages, rate):
    hidden, p = chance(x, weights)
    loss = -np.mean(target * np.log(p + 1e-7) + (1 - target) * np.log(1 - p + 1e-7))
    out = (p - target) / x.shape[0]
    inner = (out @ weights[2].T) * (1 - hidden * hidden)
    gradients = [x.T @ inner, inner.sum(axis=0), hidden.T @ out, out.sum(axis=0)]
    averages = [0.9 * a + g for a, g in zip(averages, gradients)]
    return loss, [w - rate * a for w, a in zip(weights, averages)], averages


for number in range(301):
    rate = 0.5 * 0.995**number  # a number may change: nothing is compiled anew
    loss, weights, averages = step(x, target, weights, averages, rate)
    if number % 100 == 0:
        print(f"step {number:3}: loss {float(loss):.4f}")
right = np.mean((chance(x, weights)[1] > 0.5) == (target > 0.5))
print(f"{100 * right:.1f} % of the points are on the right side; {len(step.reports())} graph")
assert right > 0.95
