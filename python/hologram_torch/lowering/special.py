# hologram_torch/lowering/special.py: special functions by polynomials of Chebyshev
import functools
import math

from . import Unsupported, lower
from .pointwise import compute

_SPLIT = 8.0  # below it series in x, above it in 1 / x


def _scaled_bessel(order, x):
    """e^-x I(x) / x^order for the orders 0 and 1: the integral of e^(x (cos t - 1)) sin(t)^(2 order) over [0, pi] / pi, by the
    trapezoidal rule."""
    points = 64 + int(12 * math.sqrt(x))
    angles = [math.pi * i / points for i in range(points + 1)]
    values = [math.exp(-2 * x * math.sin(t / 2) ** 2) * math.sin(t) ** (2 * order) for t in angles]
    return (math.fsum(values) - 0.5 * (values[0] + values[-1])) / points


def _chebyshev(function, terms):
    """Coefficients of the polynomial that has the function's values at the Chebyshev points of [-1, 1]."""
    points = [math.cos(math.pi * (k + 0.5) / terms) for k in range(terms)]
    values = [function(p) for p in points]
    out = []
    for j in range(terms):
        total = math.fsum(v * math.cos(math.pi * j * (k + 0.5) / terms) for k, v in enumerate(values))
        out.append((1 if j == 0 else 2) * total / terms)
    return out


@functools.cache
def _coefficients(order, brief):
    """Of e^-x I(x) / x^order over [0, 8], and of e^-x I(x) sqrt(x) by 1 / x over [8, infinity]."""

    def near(t):
        x = _SPLIT * (t + 1) / 2
        return _scaled_bessel(order, x)

    def far(t):
        x = 2 * _SPLIT / (t + 1)
        return _scaled_bessel(order, x) * x ** (order + 0.5)

    return _chebyshev(near, 19 if brief else 30), _chebyshev(far, 9 if brief else 25)


def _series(c, t, coefficients):
    """Clenshaw's sum."""
    first, *rest = coefficients
    one = two = c.number(t.dtype, 0)
    double = c.add(t, t)
    for a in reversed(rest):
        one, two = c.add(c.sub(c.mul(double, one), two), a), one
    return c.add(c.sub(c.mul(t, one), two), first)


def _bessel(order, scaled):
    """The modified Bessel function of the first kind, or that times e^-|x|."""

    def form(c, x):
        near, far = _coefficients(order, x.dtype == "f32")
        size = c.ew("abs", x)
        below = _series(c, c.sub(c.mul(c.ew("min", size, _SPLIT), 2 / _SPLIT), 1), near)
        if order:
            below = c.mul(below, size)
        large = c.ew("max", size, _SPLIT)
        above = c.div(_series(c, c.sub(c.div(2 * _SPLIT, large), 1), far), c.ew("sqrt", large))
        out = c.where(c.le(size, _SPLIT), below, above)
        if not scaled:
            out = c.mul(c.ew("exp", size), out)
        return c.where(c.lt(x, 0), c.ew("neg", out), out) if order else out

    return lambda c, x: compute(c, functools.partial(form, c), x)


lower("i0.default", "special_i0.default")(_bessel(0, False))
lower("special_i0e.default")(_bessel(0, True))
lower("special_i1.default")(_bessel(1, False))
lower("special_i1e.default")(_bessel(1, True))


_FAR = 26.0  # erfc above it is no longer a normal float64


@lower("special_erfcx.default")
def erfcx(c, x):
    """e^(x²) erfc(x), in float64 for results of less; far out by its asymptotic series."""
    out = c.out_dtype
    if out == "f64":
        raise Unsupported("erfcx in float64")
    x = c.cast(x, "f64")
    near = c.ew("min", x, _FAR)
    near = c.mul(c.ew("exp", c.mul(near, near)), c.ew("erfc", near))
    inverse = c.div(1.0, c.ew("max", x, _FAR))
    square = c.mul(c.mul(inverse, inverse), 0.5)
    far = c.mul(c.mul(inverse, 1 / math.sqrt(math.pi)), c.sub(1.0, c.mul(square, c.sub(1.0, c.mul(square, 3.0)))))
    return c.cast(c.where(c.lt(_FAR, x), far, near), out)
