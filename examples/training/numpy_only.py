# examples/training/numpy_only.py: training with NumPy alone: forward, gradients and update in one function, compiled and not
"""Needs `pip install hologram-compute[examples]`, no PyTorch; the 1,797 digits come with scikit-learn.

    python numpy_only.py [--epochs 10]
"""

import beside
import hologram
import numpy as np
from sklearn.datasets import load_digits

BATCH, WIDTH = 50, 64
images, labels = load_digits(return_X_y=True)
images, wanted = np.float32(images / 16), np.eye(10, dtype=np.float32)[labels]


def chances(x, weights):
    """→ (the hidden layer, a chance for each of the ten digits)"""
    first, shift, second, bias = weights
    hidden = np.maximum(x @ first + shift, 0)
    scores = hidden @ second + bias
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, powers / powers.sum(axis=1, keepdims=True)


def step(x, y, weights, averages, rate):
    """→ (loss, weights, averages) behind one step of gradient descent with momentum."""
    hidden, p = chances(x, weights)
    loss = -np.mean(np.sum(y * np.log(p + 1e-7), axis=1))
    out = (p - y) / x.shape[0]
    inner = (out @ weights[2].T) * (hidden > 0)
    gradients = [x.T @ inner, inner.sum(axis=0), hidden.T @ out, out.sum(axis=0)]
    averages = [0.9 * a + g for a, g in zip(averages, gradients)]
    return loss, [w - rate * a for w, a in zip(weights, averages)], averages


def train(epochs, disable=False):
    """Yields the loss of each step; returns the weights."""
    rng = np.random.default_rng(0)
    call = step if disable else hologram.jit(step)  # the whole step is one graph
    weights = [rng.normal(0, 0.15, (64, WIDTH)), np.zeros(WIDTH), rng.normal(0, 0.15, (WIDTH, 10)), np.zeros(10)]
    weights = [w.astype(np.float32) for w in weights]
    averages = [np.zeros_like(w) for w in weights]
    for epoch in range(epochs):
        rate = np.float32(0.1 * 0.8**epoch)  # a number may change: nothing is compiled anew
        for picked in rng.permutation(1500).reshape(-1, BATCH):
            loss, weights, averages = call(images[picked], wanted[picked], weights, averages, rate)
            yield loss
    return weights


if __name__ == "__main__":
    for ours, numpy in beside.run(train, beside.options(__doc__, "epochs", 10, 1, checks=False), each=1500 // BATCH, peer="NumPy"):
        found = chances(images[1500:], ours.result)[1].argmax(axis=1)
        print(f"of digits it has not seen {100 * np.mean(found == labels[1500:]):.1f} % are right")
