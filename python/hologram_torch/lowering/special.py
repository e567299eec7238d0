# hologram_torch/lowering/special.py: special functions by polynomials of Chebyshev
import functools
import math
import statistics

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


lower("i0.default", "special_i0.default", "special_modified_bessel_i0.default")(_bessel(0, False))
lower("special_i0e.default")(_bessel(0, True))
lower("special_i1.default", "special_modified_bessel_i1.default")(_bessel(1, False))
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


_CENTRE = 0.35  # the normal distribution's inverse is a polynomial about 1/2 up to there


@functools.cache
def _quantile(brief):
    """Of the inverse at 1/2 + u over u, by u²; and of minus the inverse at e^(-t² / 2) less t, by 1 / t."""
    inverse = statistics.NormalDist().inv_cdf
    least, most = _tail(brief)

    def centre(t):
        u = _CENTRE * math.sqrt((t + 1) / 2)
        return inverse(0.5 + u) / u

    def tail(t):
        t = 1 / (1 / most + (1 / least - 1 / most) * (t + 1) / 2)
        return -inverse(math.exp(-t * t / 2)) - t

    return _chebyshev(centre, 12 if brief else 24), _chebyshev(tail, 12 if brief else 40)


def _tail(brief):
    """sqrt(-2 log x) from where the centre ends to small numbers."""
    return math.sqrt(-2 * math.log(0.5 - _CENTRE)), 14.4 if brief else 37.6


def _ndtri(c, x):
    centre, tail = _quantile(x.dtype == "f32")
    least, most = _tail(x.dtype == "f32")
    u = c.sub(x, 0.5)
    size = c.ew("min", c.ew("abs", u), _CENTRE)
    near = c.mul(_series(c, c.sub(c.mul(c.mul(size, size), 2 / _CENTRE**2), 1), centre), u)
    p = c.ew("min", c.ew("min", x, c.sub(1, x)), 0.5 - _CENTRE)
    t = c.ew("sqrt", c.mul(c.ew("log", p), -2))
    step = 1 / least - 1 / most
    far = c.add(_series(c, c.sub(c.mul(c.sub(c.div(1, t), 1 / most), 2 / step), 1), tail), t)
    out = c.where(c.le(c.ew("abs", u), _CENTRE), near, c.where(c.lt(u, 0), c.ew("neg", far), far))
    end = c.where(c.eq(x, 0), c.number(x.dtype, -math.inf), c.where(c.eq(x, 1), c.number(x.dtype, math.inf), out))
    return c.where(c.le(0, x), c.where(c.le(x, 1), end, c.number(x.dtype, math.nan)), c.number(x.dtype, math.nan))


lower("special_ndtri.default")(lambda c, x: compute(c, functools.partial(_ndtri, c), x))
