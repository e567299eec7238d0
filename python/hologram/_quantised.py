# hologram/_quantised.py: products of bytes made of dequantised factors
# mypy: disable-error-code="no-untyped-def,no-untyped-call"
"""A builder notes in `quantised` which nodes were made of bytes; products of such nodes are exact sums of bytes, scaled behind."""

from typing import Any, NamedTuple

from hologram._convolution import channels_last, columns, image_of, out_counts, rows
from hologram._graph import Value, numel

DEEPEST = 33025  # products of two bytes that 32 bits sum without overflow: (2^31 - 1) / 255^2
FEW_ROWS = 8  # which read weights as they are, and take the multiply-adds
LEAST_RESULTS, LEAST_DEPTH = 16, 32  # of a group whose products are of bytes
LEAST_PRODUCTS = 64, 192  # with each number of an image whose range is known, and is found in the call


def pays(results, depth, taps, strides, in_call):
    """Whether a group of a convolution of float32 is better off with bytes: so many results of `depth` numbers each, windows of `taps`
    pixels. The range of an image (found in the call, or known) and its bytes are paid for by the products with each of its numbers."""
    products = results * taps / strides
    return results >= LEAST_RESULTS and LEAST_DEPTH <= depth <= DEEPEST and products >= LEAST_PRODUCTS[in_call]


class Quantised(NamedTuple):
    """(q - zero) * scale: bytes, and what belongs to them as an int, None or values with axes of 1 where they are the same."""

    q: Any
    scale: Any
    zero: object

    def moved(self, move, move_parameter):
        zero = move_parameter(self.zero) if type(self.zero) is Value else self.zero
        return Quantised(move(self.q), move_parameter(self.scale), zero)


def _quantised(c, x):
    """What a factor was made of, through changes of shape."""
    found = c.quantised.get(x.id)
    if found or x.op not in ("permute", "reshape"):
        return found
    inner = _quantised(c, x.inputs[0])
    if inner is None:
        return None
    have, want = list(inner.q.shape), list(x.shape)
    if x.op == "permute":
        return inner.moved(*[lambda v: c.permute(v, [1, 0])] * 2) if len(want) == 2 else None
    parameters = [v for v in (inner.scale, inner.zero) if type(v) is Value]
    if not have or not want or have[-1] != want[-1]:
        return None
    ones, rows = [1] * len(have), [*have[:-1], 1]
    if any(list(v.shape) not in (ones, rows) for v in parameters):
        return None

    def move_parameter(v):
        return c.reshape(v, [1] * len(want) if list(v.shape) == ones else [*want[:-1], 1])

    return inner.moved(lambda v: c.reshape(v, want), move_parameter)


def factors(c, x, w):
    """What an image and the weight of its convolution were made of, where that is one of bytes: one scale and zero point of the
    image, those of the weight the same but for its results. (Quantised, Quantised) or None."""
    if not c.quantised or c.reproducible:
        return None
    a, b = _quantised(c, x), _quantised(c, w)
    if a is None or b is None or any(numel(v.shape) != 1 for v in a[1:] if type(v) is Value):
        return None
    if any(numel(v.shape[1:]) != 1 for v in b[1:] if type(v) is Value):
        return None
    return _without_zero(c, a), _without_zero(c, b)


def _without_zero(c, x):
    """The same numbers as bytes of the other sign, where these need no zero point."""
    if type(x.zero) is Value or x.zero != (128 if x.q.dtype == "u8" else -128):
        return x
    other = "i8" if x.q.dtype == "u8" else "u8"
    return Quantised(c.make("bitcast", [c.ew("bit_xor", x.q, -128 if x.q.dtype == "i8" else 128)], dtype=other), x.scale, None)


def product(c, x, y):
    """The product of two dequantised factors, as one of bytes; None where it is not one. The sums are exact: what remains of
    the rounding is one of each sum and two of its scales."""
    if not c.quantised or c.reproducible:
        return None
    a, b = _quantised(c, x), _quantised(c, y)
    rank, rows, depth = len(x.shape), x.shape[-2], x.shape[-1]
    if a is None or b is None or type(depth) is not int or depth > DEEPEST or (type(rows) is int and rows <= FEW_ROWS):
        return None

    def uniform(v, axis):
        return type(v) is not Value or (len(v.shape) == rank and type(v.shape[axis]) is int and v.shape[axis] == 1)

    if not all(uniform(v, -1) for v in a[1:]) or not all(uniform(v, -2) for v in b[1:]):
        return None
    a, b = _without_zero(c, a), _without_zero(c, b)
    return scaled_sums(c, a, b, lambda: c.reduce("sum", c.cast(a.q, "i32"), [rank - 1], True))


def scaled_sums(c, a, b, row_sums):
    """The product of two factors of bytes by their exact sums. row_sums: → the sums of a's rows of bytes."""
    rank, depth = len(a.q.shape), a.q.shape[-1]
    z = c.make("dot_general", [a.q, b.q], ints=[0], dtype="i32")
    left = a.zero if type(a.zero) is Value or a.zero else None
    right = b.zero if type(b.zero) is Value or b.zero else None

    if left is not None:
        z = c.sub(z, c.mul(c.reduce("sum", c.cast(b.q, "i32"), [rank - 2], True), left))
    if right is not None:
        sums = row_sums()
        if left is not None:
            sums = c.sub(sums, c.mul(c.number("i32", depth, [1] * rank), left))
        z = c.sub(z, c.mul(sums, right))
    return c.mul(c.mul(c.cast(z, "f32"), a.scale), b.scale)


def convolved(c, x, w, strides, low, high, dilation, groups):
    """The convolution of an image [n, c, d…] and a weight that were bytes, by exact sums; None where it is not one, or of too
    few numbers to be worth a product of bytes."""
    found = factors(c, x, w)
    if found is None or not all(type(n) is int for n in w.shape):
        return None
    (a, b), (out, channels, *sizes) = found, w.shape
    depth, border, rank = numel(sizes) * channels, a.zero or 0, len(sizes)
    if out // groups < LEAST_RESULTS or not LEAST_DEPTH <= depth <= DEEPEST:
        return None
    if type(border) is Value:
        if any((*low, *high)):
            return None
        border = 0
    image = channels_last(c, a.q)
    counts = out_counts(image, sizes, strides, low, high, dilation)
    pixels = numel([image.shape[0], *counts])
    if type(pixels) is int and pixels <= FEW_ROWS:
        return None

    def windows_of(x, border):
        return rows(c, x, groups, low, high, sizes, counts, strides, dilation, border)

    def row_sums():
        """Of the channels of each pixel, then of the pixels of each window."""
        x = c.reshape(c.cast(image, "i32"), [*image.shape[:-1], groups, channels])
        x = windows_of(c.reduce("sum", x, [rank + 2]), border * channels)
        return c.reduce("sum", x, [len(x.shape) - 1], True)

    def placed(v):
        if type(v) is not Value:
            return v
        one = [1] * (2 if groups == 1 else 3)
        return c.reshape(v, one if numel(v.shape) == 1 else [*([groups] if groups > 1 else []), 1, out // groups])

    left = Quantised(windows_of(image, border), placed(a.scale), placed(a.zero))
    right = Quantised(columns(c, b.q, groups), placed(b.scale), placed(b.zero))
    y = scaled_sums(c, left, right, row_sums)
    return image_of(c, y, groups, image.shape[0], counts, out)
