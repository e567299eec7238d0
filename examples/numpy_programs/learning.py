# examples/numpy_programs/learning.py: regression, networks, clustering and losses
import numpy as np

from . import program, side, singles, table


def classes(r, n):
    """Rows of 16 features, a label of each among 5, and weights."""
    m = max(8, n // 16)
    return r.standard_normal((m, 16)), r.integers(0, 5, m), 0.1 * r.standard_normal((16, 5))


def rows(r, n):
    return (r.standard_normal((side(n), side(n))).astype(np.float32),)


@program(rows)
def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@program(classes)
def softmax_regression_step(x, label, w):
    score = x @ w
    p = np.exp(score - score.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(x.shape[0]), label]).mean()
    p[np.arange(x.shape[0]), label] -= 1
    return w - 0.1 * x.T @ p / x.shape[0], loss


@program(classes)
def logistic_regression(x, label, w):
    y, w = label > 2, w[:, 0]
    for _ in range(3):
        p = 1 / (1 + np.exp(-(x @ w)))
        w = w - 0.1 * (x.T @ (p - y)) / y.size
    return w


@program(classes)
def two_layers(x, label, w):
    hidden = np.maximum(x @ w, 0)
    return np.tanh(hidden @ w.T), (hidden > 0).mean(axis=0)


@program(classes)
def backpropagation(x, label, w):
    hidden = np.tanh(x @ w)
    error = hidden - np.eye(5)[label]
    return x.T @ (error * (1 - hidden**2)) / x.shape[0], 0.5 * np.mean(error**2)


@program(classes)
def nearest_centre(x, label, w):
    off = np.sum((x[:, None, :] - w.T[None]) ** 2, axis=2)
    return np.argmin(off, axis=1), off.min(axis=1).sum()


@program(classes)
def k_means_step(x, label, w):
    near = np.argmin(((x[:, None] - w.T[None]) ** 2).sum(-1), axis=1)
    member = near[:, None] == np.arange(5)[None]
    return (member.T.astype(x.dtype) @ x) / np.maximum(member.sum(0), 1)[:, None]


@program(classes)
def k_means_by_masks(x, label, w):
    return np.array([x[:, 0][label == k].mean() for k in range(5)])


@program(classes)
def confusion(x, label, w):
    guess = np.argmax(x @ w, axis=1)
    out = np.zeros((5, 5), np.int64)
    np.add.at(out, (label, guess), 1)
    return out, (guess == label).mean()


@program(classes)
def naive_bayes(x, label, w):
    hot = (label[:, None] == np.arange(5)).astype(x.dtype)
    count = hot.sum(axis=0) + 1e-9
    mean = (hot.T @ x) / count[:, None]
    var = (hot.T @ x**2) / count[:, None] - mean**2 + 1
    return -0.5 * (((x[:, None] - mean) ** 2 / var).sum(-1) + np.log(var).sum(-1))


@program(table)
def principal_components(x):
    x = x - x.mean(axis=0)
    values, vectors = np.linalg.eigh(x.T @ x / (x.shape[0] - 1))
    return (x @ vectors[:, ::-1][:, :2]) ** 2, values


@program(table)
def min_max_scaled(x):
    low = x.min(axis=0)
    return (x - low) / np.ptp(x, axis=0)


@program(rows)
def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


@program(rows)
def attention(x):
    score = x @ x.T / np.sqrt(np.float32(x.shape[1]))
    score = np.where(np.tril(np.ones(score.shape, bool)), score, np.float32(-1e9))
    e = np.exp(score - score.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ x


@program(singles)
def activations(x):
    return x / (1 + np.exp(-x)), np.log1p(np.exp(x)), np.where(x > 0, x, np.float32(0.01) * x)


@program(singles)
def huber(x):
    far = np.abs(x)
    return np.where(far < 1, 0.5 * x * x, far - np.float32(0.5)).mean()


@program(table)
def adam(x):
    m, v, w = np.zeros_like(x), np.zeros_like(x), x.copy()
    for t in range(1, 4):
        m = 0.9 * m + 0.1 * w
        v = 0.999 * v + 0.001 * w**2
        w -= 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


@program(lambda r, n: (r.standard_normal((max(4, n // 16), 16)), np.random.default_rng(2)))
def dropout(x, rng):
    keep = rng.random(x.shape) > 0.2
    return x * keep / 0.8


@program(lambda r, n: (r.standard_normal((max(4, n // 16), 16)), np.random.default_rng(2)))
def shuffled_batches(x, rng):
    order = rng.permutation(x.shape[0])
    return x[order][: x.shape[0] // 2].mean(axis=0)


@program(lambda r, n: (r.standard_normal(n), r.integers(0, 2, n)))
def roc_area(score, label):
    order = np.argsort(-score, kind="stable")
    hit = np.cumsum(label[order]) / label.sum()
    miss = np.cumsum(1 - label[order]) / (1 - label).sum()
    return np.trapezoid(hit, miss)


@program(lambda r, n: (r.standard_normal((side(n), 8)),))
def gaussian_kernel(x):
    squares = np.sum(x**2, axis=1)
    return np.exp(-0.5 * (squares[:, None] + squares[None, :] - 2 * np.dot(x, x.T)))
