# hologram_torch/lowering/bessel.py: Bessel functions of both kinds, and modified ones of the second, by polynomials of Chebyshev
"""Each function of the orders 0 and 1 is near 0 a polynomial in x² with what is singular there beside it, far out one in 1 / x or 1 / x²
beside waves or a power of e. The polynomials have the values that integrals give by the trapezoidal rule, to the last places."""

import cmath
import functools
import math

from . import lower
from .pointwise import compute
from .special import _chebyshev, _scaled_bessel, _series

_EULER = 0.5772156649015329
_SPLIT, _SPLIT_K = 8.0, 2.0


def _first(order, x):
    """J: the integral of cos(order t - x sin t) over a turn."""
    turns = [2 * math.pi * (i + 0.5) / 64 for i in range(64)]
    return math.fsum(math.cos(order * t - x * math.sin(t)) for t in turns) / 64


def _regular_first(order, x):
    return _first(order, x) / x**order


def _regular_second(order, x):
    """Y without the parts with log(x) and 1 / x, over x^order: Neumann's series (Abramowitz and Stegun, 9.1.88)."""
    rest = math.fsum((-1) ** k * (order + 2 * k) / (k * (order + k)) * _first(order + 2 * k, x) for k in range(1, 18))
    out = (2 * (_EULER - math.log(2) - order) * _first(order, x) - 2 * rest) / math.pi
    return out if order == 0 else (out - 2 / (math.pi * x) * (_first(0, x) - 1)) / x


def _waves(order, x):
    """What J + iY is beside sqrt(2 / (pi x)) and its wave: the integral of e^(-s²) s^(2 order) (1 + i s² / 2x)^(order - 1/2)."""
    steps = [i / 16 for i in range(-112, 113)]
    values = [math.exp(-s * s) * s ** (2 * order) * cmath.exp((order - 0.5) * cmath.log(1 + 0.5j * s * s / x)) for s in steps]
    return sum(values) / 16 / math.gamma(order + 0.5)


def _decaying(order, x):
    """e^x K: the integral of e^(x - x cosh t) cosh(order t)."""
    h = 1 / 16 / math.sqrt(max(x, 1.0))
    return h * (0.5 + math.fsum(math.exp(-2 * x * math.sinh(i * h / 2) ** 2) * math.cosh(order * i * h) for i in range(1, 200)))


def _growing(order, x):
    """I over x^order."""
    return _scaled_bessel(order, x) * math.exp(x)


def _regular_decaying(order, x):
    """K without the parts with log(x) and 1 / x, over x^order."""
    grown = math.log(x) * _growing(order, x) * x**order
    out = _decaying(order, x) * math.exp(-x)
    return out + grown if order == 0 else (out - grown - 1 / x) / x


@functools.cache
def _near(function, order, split, terms):
    return _chebyshev(lambda t: function(order, split * math.sqrt((t + 1) / 2)), terms)


@functools.cache
def _far(order, terms):
    """Of the parts of `_waves` that are even and odd in 1 / x."""

    def value(t, odd):
        inverse = math.sqrt((t + 1) / 2)
        waves = _waves(order, _SPLIT / inverse)
        return waves.imag / inverse if odd else waves.real

    return [_chebyshev(functools.partial(value, odd=odd), terms) for odd in (False, True)]


@functools.cache
def _far_decaying(order, terms):
    def value(t):
        x = 2 * _SPLIT_K / (t + 1)
        return _decaying(order, x) * math.sqrt(x)

    return _chebyshev(value, terms)


def _inner(c, x, split, function, order, terms):
    """A polynomial in x² for |x| up to `split`, times x^order."""
    brief, long = terms
    near = c.ew("min", c.ew("abs", x), split)
    t = c.sub(c.mul(c.mul(near, near), 2 / split**2), 1)
    out = _series(c, t, _near(function, order, split, brief if x.dtype == "f32" else long))
    return c.mul(out, near) if order else out


def _positive(c, x, out, at_zero):
    nan = c.number(x.dtype, math.nan)
    return c.where(c.lt(0, x), out, c.where(c.eq(x, 0), c.number(x.dtype, at_zero), nan))


def _far_waves(c, order, second, size):
    """J or Y far out: of cos and sin of x itself, which loses nothing where x is large."""
    large = c.ew("max", size, _SPLIT)
    inverse = c.div(_SPLIT, large)
    t = c.sub(c.mul(c.mul(inverse, inverse), 2), 1)
    terms = 8 if size.dtype == "f32" else 18
    even, odd = (_series(c, t, coefficients) for coefficients in _far(order, terms))
    odd = c.mul(odd, inverse)
    sine, cosine = c.ew("sin", large), c.ew("cos", large)
    along, across = c.add(cosine, sine), c.sub(sine, cosine)  # cos and sin of x - pi / 4, by sqrt(2)
    if order:
        along, across = across, c.ew("neg", along)
    wave = c.add(c.mul(even, across), c.mul(odd, along)) if second else c.sub(c.mul(even, along), c.mul(odd, across))
    return c.mul(wave, c.ew("rsqrt", c.mul(large, math.pi)))


def _bessel(order, second):
    def form(c, x):
        size = c.ew("abs", x)
        near = _inner(c, x, _SPLIT, _regular_first, order, (13, 22))
        if second:
            own = _inner(c, x, _SPLIT, _regular_second, order, (13, 24))
            near = c.add(c.mul(c.mul(c.ew("log", c.ew("min", size, _SPLIT)), near), 2 / math.pi), own)
            near = c.sub(near, c.div(2 / math.pi, size)) if order else near
        out = c.where(c.le(size, _SPLIT), near, _far_waves(c, order, second, size))
        if second:
            return _positive(c, x, out, -math.inf)
        return c.where(c.lt(x, 0), c.ew("neg", out), out) if order else out

    return lambda c, x: compute(c, functools.partial(form, c), x)


def _modified(order, scaled):
    """K, or e^x K."""

    def form(c, x):
        size = c.ew("abs", x)
        brief = x.dtype == "f32"
        grown = _inner(c, x, _SPLIT_K, _growing, order, (8, 14))
        near = c.mul(c.ew("log", c.ew("min", size, _SPLIT_K)), grown)
        own = _inner(c, x, _SPLIT_K, _regular_decaying, order, (8, 14))
        near = c.add(c.add(near, own), c.div(1.0, size)) if order else c.sub(own, near)
        large = c.ew("max", size, _SPLIT_K)
        far = _series(c, c.sub(c.div(2 * _SPLIT_K, large), 1), _far_decaying(order, 11 if brief else 28))
        far = c.div(far, c.ew("sqrt", large))
        if scaled:
            near = c.mul(near, c.ew("exp", c.ew("min", size, _SPLIT_K)))
        else:
            far = c.mul(far, c.ew("exp", c.ew("neg", large)))
        return _positive(c, x, c.where(c.le(size, _SPLIT_K), near, far), math.inf)

    return lambda c, x: compute(c, functools.partial(form, c), x)


for _order in (0, 1):
    lower(f"special_bessel_j{_order}.default")(_bessel(_order, False))
    lower(f"special_bessel_y{_order}.default")(_bessel(_order, True))
    lower(f"special_modified_bessel_k{_order}.default")(_modified(_order, False))
    lower(f"special_scaled_modified_bessel_k{_order}.default")(_modified(_order, True))
