#!/usr/bin/env python3
"""tools/minimax.py: derives the polynomial coefficients of src/atlas/math/*.h.

  python3 tools/minimax.py             every table (then clang-format): src/atlas/math/tables.h
  python3 tools/minimax.py NAME...     some of them

Needs mpmath and numpy. Each entry of TABLES is a weighted minimax fit: the Remez exchange on a dense grid at 60 digits, then one
coefficient after the other, from the lowest order up, is rounded to its format and the later ones take up its rounding;
f32 ones are then polished by annealing. Printed: the largest weighted error (as log2) after rounding.
"""
import sys

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def round_to(x, fmt):
    """x rounded to nearest in 'f32' or 'f64'."""
    with mp.workprec(24 if fmt == "f32" else 53):
        return +mp.mpf(x)


def grid(lo, hi, n):
    """Chebyshev-spaced points of [lo, hi], zero avoided."""
    mid, half = (hi + lo) / 2, (hi - lo) / 2
    pts = [mid - half * mp.cos(mp.pi * i / (n - 1)) for i in range(n)]
    tiny = half * mp.mpf(10) ** -9
    return [p if abs(p) > tiny else tiny for p in pts]


def remez(f, basis, weight, xs):
    """Minimax coefficients for sum c_k basis[.][k] ~ f with error times weight levelled; all lists over xs."""
    n = len(basis[0])
    ref = [round(i * (len(xs) - 1) / n) for i in range(n + 1)]
    for _ in range(60):
        a = mp.matrix(n + 1, n + 1)
        b = mp.matrix(n + 1, 1)
        for r, i in enumerate(ref):
            for k in range(n):
                a[r, k] = basis[i][k]
            a[r, n] = (-1) ** r / weight[i]
            b[r] = f[i]
        sol = mp.lu_solve(a, b)
        c, level = [sol[k] for k in range(n)], abs(sol[n])
        err = [(f[i] - mp.fdot(c, basis[i])) * weight[i] for i in range(len(xs))]
        # one extremum per run of equal sign; of more than n + 1 keep the best consecutive ones
        peaks = []
        for i, e in enumerate(err):
            if peaks and (err[peaks[-1]] > 0) == (e > 0):
                if abs(e) > abs(err[peaks[-1]]):
                    peaks[-1] = i
            else:
                peaks.append(i)
        while len(peaks) > n + 1:
            if abs(err[peaks[0]]) < abs(err[peaks[-1]]):
                peaks.pop(0)
            else:
                peaks.pop()
        worst = max(abs(e) for e in err)
        if len(peaks) < n + 1 or worst <= level * mp.mpf("1.0005"):
            break
        ref = peaks
    return c, worst


def round_all(c, basis, weight, fmts):
    """Rounds c in order; after each one the later ones change so as to make up for it (least squares)."""
    w = np.array([float(v) for v in weight])[:, None]
    a = np.array([[float(v) for v in row] for row in basis]) * w
    scale = np.abs(a).max(axis=0)
    for k in range(len(c)):
        rounded = round_to(c[k], fmts[k])
        delta, c[k] = c[k] - rounded, rounded
        if k + 1 < len(c) and delta != 0:
            later = np.linalg.lstsq(a[:, k + 1:] / scale[k + 1:], a[:, k] * float(delta), rcond=None)[0]
            for j, d in enumerate(later / scale[k + 1:]):
                c[k + 1 + j] += mp.mpf(float(d))
    return c


def polish(c, fs, basis, weight, steps=60000):
    """Simulated annealing over neighbouring f32 coefficients; the first one stays."""
    a = np.array([[float(v) for v in row] for row in basis])
    f, w = (np.array([float(v) for v in part]) for part in (fs, weight))
    error = lambda k: np.abs((f - a @ k.astype(float)) * w).max()
    rng = np.random.default_rng(1)
    now = best = np.array([float(v) for v in c], np.float32)
    e_now = e_best = error(now)
    heat = e_best / 20
    for step in range(steps):
        trial = now.copy()
        for k in rng.integers(1, len(c), rng.integers(1, 4)):
            trial[k] = np.nextafter(trial[k], np.float32(rng.choice([-9, 9])))
        e = error(trial)
        if e < e_now or rng.random() < np.exp((e_now - e) / (heat * (1 - step / (steps + 1)))):
            now, e_now = trial, e
        if e < e_best:
            best, e_best = trial, e
    return [mp.mpf(float(v)) for v in best]


def points(lo, hi, n):
    return grid(mp.mpf(lo), mp.mpf(hi), max(400, 40 * n))


def fit(f, powers, lo, hi, weight=None, fmt="f64"):
    """Coefficients for f on [lo, hi] and the largest weighted error; weight 1/f by default."""
    xs = points(lo, hi, len(powers))
    fs = [f(x) for x in xs]
    ws = [(1 / abs(v) if weight is None else abs(weight(x))) for x, v in zip(xs, fs)]
    basis = [[x**p for p in powers] for x in xs]
    c, _ = remez(fs, basis, ws, xs)
    c = round_all(c, basis, ws, [fmt] * len(c))
    if fmt == "f32":
        c = polish(c, fs, basis, ws)
    return c, max(abs(v - mp.fdot(c, row)) * w for v, row, w in zip(fs, basis, ws))


def literal(c, fmt):
    mantissa, exponent = float(c).hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent + ("f" if fmt == "f32" else "")


TABLES = {}


def poly(name, f, powers, lo, hi, weight=None, fmt="f64"):
    TABLES[name] = (f, dict(powers=powers, lo=lo, hi=hi, weight=weight, fmt=fmt))


def run(name):
    f, kw = TABLES[name]
    if "about_zero" in kw:
        return run_pieces_about_zero(name, f, **kw)
    if "edges" in kw:
        return run_pieces(name, f, **kw)
    if "inverse" in kw:
        return run_odd_pieces(name, f, **kw)
    if "windows" in kw:
        return run_windows(name, **kw)
    if "count" in kw:
        return run_powers(name, **kw)
    c, worst = fit(f, **kw)
    lo, hi = (mp.nstr(mp.mpf(kw[k]), 5) for k in ("lo", "hi"))
    print(f"// on [{lo}, {hi}], weighted error 2^{mp.nstr(mp.log(worst, 2), 4)}")
    print_array(name, c, kw["fmt"])


def pieces(name, f, powers, edges, first=0, start=None):
    """f in f32 on the intervals between `edges`, each by a polynomial about its centre: arrays by power for
    lookups, interval k as element (first + k) mod their number. The first interval may be about its lower end 0
    with the powers `start`, which keeps the relative error there."""
    TABLES[name] = (f, dict(powers=powers, edges=edges, first=first, start=start))


def run_pieces(name, f, powers, edges, first, start):
    count = len(edges) - 1
    centres, table, worst = [mp.mpf(0)] * count, [[mp.mpf(0)] * count for _ in powers], mp.mpf(0)
    for k, (lo, hi) in enumerate(zip(edges, edges[1:])):
        at_zero = k == 0 and start is not None
        centre = mp.mpf(0) if at_zero else (mp.mpf(lo) + mp.mpf(hi)) / 2
        own = start if at_zero else powers
        c, error = fit(lambda d: f(centre + d), own, mp.mpf(lo) - centre, mp.mpf(hi) - centre, None, "f32")
        element = (first + k) % count
        centres[element] = centre
        for power, value in zip(own, c):
            table[power][element] = value
        worst = max(worst, error)
    lo, hi = mp.nstr(mp.mpf(edges[0]), 5), mp.nstr(mp.mpf(edges[-1]), 5)
    print(f"// {count} pieces of [{lo}, {hi}], weighted error 2^{mp.nstr(mp.log(worst, 2), 4)}")
    print_array(name + "_centre", centres, "f32")
    for power, row in enumerate(table):
        print_array(f"{name}_{power}", row, "f32")


def pieces_about_zero(name, f, powers, edges, first):
    """The same by polynomials in the argument itself that level the absolute error."""
    TABLES[name] = (f, dict(powers=powers, edges=edges, first=first, about_zero=True))


def run_pieces_about_zero(name, f, powers, edges, first, about_zero):
    count = len(edges) - 1
    table, worst = [[mp.mpf(0)] * count for _ in powers], mp.mpf(0)
    for k, (lo, hi) in enumerate(zip(edges, edges[1:])):
        c, error = fit(f, powers, lo, hi, lambda a: 1, "f32")
        worst = max(worst, error)
        for power, value in zip(powers, c):
            table[power][(first + k) % count] = value
    lo, hi = mp.nstr(mp.mpf(edges[0]), 5), mp.nstr(mp.mpf(edges[-1]), 5)
    print(f"// {count} pieces of [{lo}, {hi}], absolute error 2^{mp.nstr(mp.log(worst, 2), 4)}")
    for power, row in enumerate(table):
        print_array(f"{name}_{power}", row, "f32")


def odd_pieces(name, f, inverse, scale, terms):
    """f in f32 for an odd f that grows to 1, on 16 intervals that the exponent and two bits of scale x + 1 choose: f(c + d) =
    f(c) + d (p_1 + p_2 d + ...) with c where f(c) is all but a float; x + x (p_1 + p_2 x + ...) on the first interval."""
    TABLES[name] = (f, dict(inverse=inverse, scale=scale, terms=terms))


def nearly_float(f, inverse, middle):
    """A float near `middle` whose value under f is a float to some 2^-30: both, the closer the better."""
    found, value = [], np.float32(float(f(middle)))
    for steps in range(-40, 41):
        want = mp.mpf(float(value + np.float32(steps) * np.spacing(value)))
        if want < 1:
            c = round_to(inverse(want), "f32")
            error = abs(f(c) - want) / want
            found.append((max(error * 2**30, 1) * (1 + 20 * abs(c - middle) / middle), c, want))
    return min(found)[1:]


def run_odd_pieces(name, f, inverse, scale, terms):
    edges = [(m * mp.mpf(2) ** (e - 2) - 1) / scale for e in range(4) for m in range(4, 8)] + [15 / mp.mpf(scale)]
    centres, table, worst = [mp.mpf(0)] * 16, [[mp.mpf(0)] * 16 for _ in range(terms + 1)], mp.mpf(0)
    for k, (lo, hi) in enumerate(zip(edges, edges[1:])):
        c, value = (mp.mpf(0), mp.mpf(0)) if k == 0 else nearly_float(f, inverse, (lo + hi) / 2)
        best = None
        for count in (160, 200, 251):
            xs = grid(lo - c, hi - c, count)
            fs = [(f(c + d) - value) / d - (1 if k == 0 else 0) for d in xs]
            ws = [abs(d) / f(c + d) for d in xs]
            basis = [[d**p for p in range(terms)] for d in xs]
            p = [round_to(v, "f32") for v in remez(fs, basis, ws, xs)[0]]
            error = max(abs(v - mp.fdot(p, row)) * w for v, row, w in zip(fs, basis, ws))
            best = min(best, (error, p)) if best else (error, p)
        worst = max(worst, best[0])
        for row, v in zip([centres, *table], [c, value, *best[1]]):
            row[(12 + k) % 16] = v
    print(f"// 16 pieces of [0.0, {mp.nstr(edges[-1], 5)}], weighted error 2^{mp.nstr(mp.log(worst, 2), 4)}")
    print_array(name + "_centre", centres, "f32")
    for power, row in enumerate(table):
        print_array(f"{name}_{power}", row, "f32")


def run_windows(name, windows):
    """Window w is for exponents 8 w + 1 to 8 w + 8 (0 for smaller ones too): 16 bits of 2/pi from the weight
    2^(7 - 8 w) on, 16 more, and a float of the rest."""
    pieces_of = [[], [], []]
    with mp.workprec(400):
        for w in range(windows):
            unit = mp.mpf(2) ** (8 - 8 * w)
            rest = mp.frac(2 / mp.pi / unit) * unit
            for row in pieces_of[:2]:
                unit /= 2**16
                row.append(mp.floor(rest / unit) * unit * 2**40)
                rest -= mp.floor(rest / unit) * unit
            pieces_of[2].append(round_to(rest * 2**40, "f32"))
    for k, row in enumerate(pieces_of):
        print_array(f"{name}_{k}", row, "f32")


def powers_of_two(name, count, up):
    """2^(k / count) in f32 for lookups by the low bits of a number of such steps: bits to which the number,
    shifted so that whole powers fall into the exponent, is added; 2^up times as large."""
    TABLES[name] = (None, dict(count=count, up=up))


def run_powers(name, count, up):
    print(f"// 2^({up} + k / {count}), less what the bits of k / {count} add")
    step = 2**23 // count
    bits = [np.float32(mp.mpf(2) ** (mp.mpf(k) / count)).view(np.int32) - k * step + up * 2**23 for k in range(count)]
    print_array(name, [int(b) for b in bits], "i32")


def print_array(name, c, fmt):
    kind = {"f32": "float", "f64": "double", "i32": "int32_t"}[fmt]
    text = f"inline constexpr std::array<{kind}, {len(c)}> {name}{{"
    line = ""
    for k, x in enumerate(c):
        item = (hex(x) if fmt == "i32" else literal(x, fmt)) + ("};" if k == len(c) - 1 else ",")
        if len(line or text) + 1 + len(item) > 100:
            print(line or text)
            line = "    " + item
        else:
            line = (line + " " + item) if line else text + item
    print(line, flush=True)


HEADER = """// atlas/math/tables.h: polynomial coefficients, written by tools/minimax.py.
#pragma once

#include <array>
#include <cstdint>

namespace hologram::atlas::math::table {
"""


def sqrt(x):
    return mp.sqrt(x)


H = mp.log(2) / 2 * (1 + mp.mpf(2) ** -10)  # half of ln 2 and a little, for the rounding of the multiple

# exp: e^r = 1 + r + r^2 c(r); the second pair levels the error relative to e^r - 1
expc = lambda r: (mp.expm1(r) - r) / r**2
poly("exp_f32", expc, range(0, 5), -H, H, lambda r: r**2 / mp.exp(r), "f32")
poly("exp_shifted_f32", expc, range(0, 5), "-0.288", "0.4058", lambda r: r**2 / mp.exp(r), "f32")
poly("exp_f64", expc, range(0, 10), -H, H, lambda r: r**2 / mp.exp(r))
poly("expm1_f32", expc, range(0, 6), -H, H, lambda r: r**2 / mp.expm1(r), "f32")
poly("expm1_f64", expc, range(0, 11), -H, H, lambda r: r**2 / mp.expm1(r))
# the same in f64 for results in f32
poly("exp_brief_f64", expc, range(0, 5), -H, H, lambda r: r**2 / mp.exp(r))
poly("expm1_brief_f64", expc, range(0, 6), -H, H, lambda r: r**2 / mp.expm1(r))
# exp2: 2^r = 1 + r ln 2 + r^2 c(r)
poly("exp2_f32", lambda r: (mp.expm1(r * mp.log(2)) - r * mp.log(2)) / r**2, range(0, 5), "-0.5", "0.5",
     lambda r: r**2 / 2**r, "f32")
# log(1 + f) = f - f^2/2 + f^3 c(f)
poly("log_f32", lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, range(0, 8), mp.mpf(-1) / 3, mp.mpf(1) / 3,
     lambda f: f**3 / mp.log1p(f), "f32")
# log((1 + s)/(1 - s)) = 2 s + s z c(z), z = s^2; tail: the same beyond 2/3 z
Z = ((sqrt(2) - 1) / (sqrt(2) + 1)) ** 2 * mp.mpf("1.001")
atl = lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z
poly("log_f64", atl, range(0, 7), 0, Z, lambda z: z)
poly("log_brief_f64", atl, range(0, 4), 0, Z, lambda z: z)
poly("log_tail_f64", lambda z: (atl(z) - mp.mpf(2) / 3) / z, range(0, 7), 0, Z, lambda z: z**2)
odd_pieces("tanh", mp.tanh, mp.atanh, mp.mpf("1.6625"), 6)
# sin x = x + x z c(z), cos x = 1 - z/2 + z^2 c(z) up to a quarter of pi
Q = (mp.pi / 4) ** 2 * mp.mpf("1.001")
sinc = lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z
cosc = lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2
# the same to f32 precision with quarter turns as the unit, |r| <= 1/2: sin = r c(z), cos = c(z)
poly("sin_quarter_f64", lambda z: mp.sin(mp.pi / 2 * mp.sqrt(z)) / mp.sqrt(z), range(0, 4), 0, "0.2501")
poly("cos_quarter_f64", lambda z: mp.cos(mp.pi / 2 * mp.sqrt(z)), range(0, 5), 0, "0.2501")
poly("sin_f64", sinc, range(0, 6), 0, Q, lambda z: z * mp.sqrt(z) / mp.sin(mp.sqrt(z)))
poly("cos_f64", cosc, range(0, 6), 0, Q, lambda z: z**2 / mp.cos(mp.sqrt(z)))
# of a bfloat16, to one: sin = r c(z), cos = c(z); 2/pi from the bits on that make whole turns of no number with the
# exponents of a window, times 2^40
poly("sin_quarter_bf16", lambda z: mp.sin(mp.pi / 2 * mp.sqrt(z)) / mp.sqrt(z), range(0, 3), 0, "0.2501", None, "f32")
poly("cos_quarter_bf16", lambda z: mp.cos(mp.pi / 2 * mp.sqrt(z)), range(0, 3), 0, "0.2501", None, "f32")
TABLES["quarters_bf16"] = (None, dict(windows=16))
# asin s = s + s z c(z) on [0, 1/2]; atan t = t + t z c(z) on [0, tan(pi/8)]
poly("asin_f64", lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, range(0, 13), 0, "0.2501", lambda z: z)
poly("asin_brief_f64", lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, range(0, 6), 0, "0.2501", lambda z: z)
T = (sqrt(2) - 1) ** 2 * mp.mpf("1.001")
poly("atan_f64", lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, range(0, 11), 0, T, lambda z: z)
poly("atan_brief_f64", lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, range(0, 5), 0, T, lambda z: z)
# m^(-1/3) on [1, 2]
poly("cbrt_f64", lambda m: mp.cbrt(m) ** -1, range(0, 4), 1, 2)
odd_pieces("erf", mp.erf, mp.erfinv, mp.mpf("3.8125"), 6)
# erf x = x + x c(z) up to 1
erfs = lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1
poly("erf_f64", erfs, range(0, 13), 0, "1.0001", lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)))


def erfcx(a):
    return mp.erfc(a) * mp.exp(a * a)


def erfcx_t(t):
    a = 4 * (1 + t) / (1 - t)
    return (1 + 2 * a) * erfcx(a)


# erfc a = exp(-a^2) c(t) / (1 + 2 a), t = (a - 4)/(a + 4)
poly("erfcx_f64", erfcx_t, range(0, 23), -1, "0.7501")
poly("erfcx_short_f64", erfcx_t, range(0, 12), -1, (mp.mpf(11) - 4) / 15)


# gelu: a Phi(-a) = exp(-a^2/2) c(a), by the exponent and two bits of a + 1; e^r = 1 + r c(r) where multiples of
# ln 2 / 8 are taken away
pieces("gelu", lambda a: a * erfcx(a / sqrt(2)) / 2, range(0, 6),
       [m * mp.mpf(2) ** (e - 2) - 1 for e in range(4) for m in range(4, 8)] + [15], 12, range(1, 6))
E = mp.log(2) / 16 * mp.mpf("1.001")
powers_of_two("power_eighth", 8, 64)
poly("exp_eighth_f32", lambda r: mp.expm1(r) / r, range(0, 3), -E, E, lambda r: r, "f32")
# to a bfloat16: Phi(-a) = e^c(a), by the exponent and three bits of a + 5; e^r is 1 + r where multiples of ln 2 / 16 are
# taken away, so c is larger by half of what that leaves out
R = mp.log(2) / 32
pieces_about_zero("gelu_bf16", lambda a: mp.log(mp.erfc(a / sqrt(2)) / 2) + R * R / 4, range(0, 3),
                  [mp.mpf(k) / 2 for k in range(6)] + list(range(3, 11)) + [11, 13, mp.mpf("13.7")], 10)
powers_of_two("power_sixteenth", 16, 64)
# attention's probabilities to a bfloat16: 2^r = c(r)
poly("exp2_bf16", lambda r: 2**r, range(0, 5), "-0.5", "0.5", None, "f32")
# lgamma(2 + t) = t c(t); Stirling: lgamma z = (z - 1/2) log z - z + log(2 pi)/2 + c(1/z^2)/z for z >= 8
poly("lgamma_f64", lambda t: mp.loggamma(2 + t) / t, range(0, 19), "-0.5001", "0.5001")


def stirling(w):
    z = 1 / mp.sqrt(w)
    return (mp.loggamma(z) - (z - mp.mpf("0.5")) * mp.log(z) + z - mp.log(2 * mp.pi) / 2) * z


poly("stirling_f64", stirling, range(0, 7), mp.mpf(10) ** -9, mp.mpf(1) / 64)
# digamma z = log z - 1/(2 z) - c(w) w, w = 1/z^2, for z >= 10
poly("digamma_f64", lambda w: (mp.log(1 / mp.sqrt(w)) - mp.sqrt(w) / 2 - mp.digamma(1 / mp.sqrt(w))) / w,
     range(0, 7), mp.mpf(10) ** -9, mp.mpf(1) / 100)


def erfinv_ratio(w):
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


# erfinv x ~ x c(w - 2.5) for w = -log(1 - x^2) < 5, x c(sqrt(w) - 4) beyond; refined by one step of Halley's method
poly("erfinv_f64", lambda t: erfinv_ratio(t + mp.mpf("2.5")), range(0, 9), mp.mpf("-2.4999999"), "2.5")
poly("erfinv_tail_f64", lambda t: erfinv_ratio((t + 4) ** 2), range(0, 10), sqrt(5) - 4, "2.1")
# the same in f32, by the exponent and two bits of 15/16 w + 1
pieces("erfinv", lambda w: erfinv_ratio(w) if w > 0 else sqrt(mp.pi) / 2, range(0, 5),
       [(m * mp.mpf(2) ** (e - 2) - 1) * 16 / 15 for e in range(4) for m in range(4, 8)] + [16], 12)

if __name__ == "__main__":
    print(HEADER)
    for table_name in sys.argv[1:] or TABLES:
        run(table_name)
    print("\n}  // namespace hologram::atlas::math::table")
