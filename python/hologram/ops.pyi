# hologram/ops.pyi: types of hologram.ops; written by tools/stubs.py
"""Functions on buffers: results are written, nothing is allocated.

All take the executor first and read and write the first `n` elements, by default all of them. The buffers have one dtype; on
float32 each call is one native kernel that came with the library. Element-wise results may be an operand itself.
"""

from typing import Optional, overload

from hologram._core import Buffer, Executor
from hologram.stream import Stream


@overload
def binary_cross_entropy_loss(executor: Executor, pred: Buffer, target: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Stream) -> None: ...
@overload
def binary_cross_entropy_loss(executor: Executor, pred: Buffer, target: Buffer, output: Buffer, n: Optional[int] = None, *, stream: None = None) -> float:
    """-mean(target log(pred) + (1 - target) log(1 - pred)), logarithms at least -100.

    Over the first n elements, by default all of the first buffer. Returns the result and stores it in output[0]; with a stream, the latter alone.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

@overload
def cross_entropy_loss(executor: Executor, pred: Buffer, target: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Stream) -> None: ...
@overload
def cross_entropy_loss(executor: Executor, pred: Buffer, target: Buffer, output: Buffer, n: Optional[int] = None, *, stream: None = None) -> float:
    """-mean(target log(pred)) over probabilities.

    Over the first n elements, by default all of the first buffer. Returns the result and stores it in output[0]; with a stream, the latter alone.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def gelu(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """x (1 + erf(x / sqrt 2)) / 2.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def gelu_tanh(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def gemm(executor: Executor, a: Buffer, b: Buffer, c: Buffer, m: int, n: int, k: int, *, stream: Optional[Stream] = None) -> None:
    """C (m x n) = A (m x k) B (k x n), row-major.

    Buffers of one float dtype, large enough for the sizes; the result overlaps no operand.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def matvec(executor: Executor, a: Buffer, x: Buffer, y: Buffer, m: int, n: int, *, stream: Optional[Stream] = None) -> None:
    """y (m) = A (m x n) x (n).

    Buffers of one float dtype, large enough for the sizes; the result overlaps no operand.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

@overload
def mse_loss(executor: Executor, pred: Buffer, target: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Stream) -> None: ...
@overload
def mse_loss(executor: Executor, pred: Buffer, target: Buffer, output: Buffer, n: Optional[int] = None, *, stream: None = None) -> float:
    """mean((pred - target)^2).

    Over the first n elements, by default all of the first buffer. Returns the result and stores it in output[0]; with a stream, the latter alone.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

@overload
def reduce_max(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Stream) -> None: ...
@overload
def reduce_max(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: None = None) -> float:
    """Largest element; NaN if any is.

    Over the first n elements, by default all of the first buffer. Returns the result and stores it in output[0]; with a stream, the latter alone.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

@overload
def reduce_min(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Stream) -> None: ...
@overload
def reduce_min(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: None = None) -> float:
    """Smallest element; NaN if any is.

    Over the first n elements, by default all of the first buffer. Returns the result and stores it in output[0]; with a stream, the latter alone.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

@overload
def reduce_sum(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Stream) -> None: ...
@overload
def reduce_sum(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: None = None) -> float:
    """Sum.

    Over the first n elements, by default all of the first buffer. Returns the result and stores it in output[0]; with a stream, the latter alone.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def scalar_add(executor: Executor, a: Buffer, c: Buffer, scalar: float, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = a + scalar.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def scalar_mul(executor: Executor, a: Buffer, c: Buffer, scalar: float, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = a * scalar.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def sigmoid(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """1 / (1 + exp(-x)).

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def softmax(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """Softmax over all n elements.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def tanh(executor: Executor, input: Buffer, output: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """Hyperbolic tangent.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def vector_abs(executor: Executor, a: Buffer, c: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = |a|.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def vector_add(executor: Executor, a: Buffer, b: Buffer, c: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = a + b.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def vector_clip(executor: Executor, a: Buffer, c: Buffer, min_val: float, max_val: float, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = min(max(a, min_val), max_val).

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def vector_div(executor: Executor, a: Buffer, b: Buffer, c: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = a / b; integers truncate, and ZeroDivisionError follows the whole result.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def vector_max(executor: Executor, a: Buffer, b: Buffer, c: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = the larger of a and b; NaN if either is.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def vector_min(executor: Executor, a: Buffer, b: Buffer, c: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = the smaller of a and b; NaN if either is.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def vector_mul(executor: Executor, a: Buffer, b: Buffer, c: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = a * b.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def vector_neg(executor: Executor, a: Buffer, c: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = -a.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def vector_relu(executor: Executor, a: Buffer, c: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = max(a, 0).

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """

def vector_sub(executor: Executor, a: Buffer, b: Buffer, c: Buffer, n: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
    """c = a - b.

    The first n elements, by default all of the result. Buffers of one dtype; the result may be an operand itself.

    stream: a Stream of the executor, on which the call is left without waiting for it (None: it ends with its work).

    Raises:
        TypeError: not an Executor or Buffer.
        ValueError: a buffer is too small, of another dtype or of another executor.
        HologramError: the executor or a buffer was freed.
    """
