# hologram/onnx/random.py: random numbers, by NumPy's generator between graphs
# mypy: ignore-errors
"""A node has a generator of its own, from its seed or one that differs in each process; each call goes on in its sequence."""

import numpy as np

from hologram.onnx import tensors
from hologram.onnx.table import operator


def _generator(node):
    if not hasattr(node, "generator"):
        seed = node.attributes.get("seed")  # a float, but for Dropout's
        whole = seed is None or (seed == int(seed) and 0 <= seed < 1 << 32)
        node.generator = np.random.RandomState((None if seed is None else int(seed)) if whole else np.float32(seed).view(np.uint32))
    return node.generator


def _drawn(call, draw, *operands):
    """What draw(generator, *operands) gives in each call."""
    node = call.node_of_model

    def function(*arrays):
        return draw(_generator(node), *arrays)

    return call.tracer.host(f"numpy.{node.op}", function, operands, {})


def _dtype(call, like=None):
    number = call.attr("dtype", 1 if like is None else 0)
    return tensors.dtype_of(number) if number else np.dtype(like.dtype)


@operator("RandomUniform", "RandomNormal", fold=False)
def random(call):
    dtype, shape = _dtype(call), call.attr("shape")
    return _drawn(call, lambda generator: _numbers(call, generator, shape, dtype))


@operator("RandomUniformLike", "RandomNormalLike", fold=False)
def random_like(call, x):
    dtype = _dtype(call, x)
    return _drawn(call, lambda generator, x: _numbers(call, generator, x.shape, dtype), call.lift(x))


def _numbers(call, generator, shape, dtype):
    if call.node_of_model.op.startswith("RandomNormal"):
        x = generator.normal(call.attr("mean", 0.0), call.attr("scale", 1.0), shape)
    else:
        x = generator.uniform(call.attr("low", 0.0), call.attr("high", 1.0), shape)
    return np.asarray(x).astype(dtype)


@operator("Multinomial", fold=False)
def multinomial(call, x):
    """Classes by their logarithms of probabilities, x [batch, classes]."""
    dtype, count = tensors.dtype_of(call.attr("dtype", 6)), call.attr("sample_size", 1)

    def draw(generator, x):
        p = np.exp(x.astype(np.float64) - x.max(1, keepdims=True)).cumsum(1)
        at = generator.uniform(0, 1, (len(x), count, 1)) * p[:, None, -1:]
        return (at >= p[:, None, :]).sum(2).astype(dtype)

    return _drawn(call, draw, call.lift(x))


def mask(call, x, ratio):
    """Which elements of x dropout keeps while training."""
    return _drawn(call, lambda generator, x: np.asarray(generator.uniform(0, 1, x.shape) >= ratio), call.lift(x))
