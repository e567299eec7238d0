// atlas/math/erf.h: the error function and its kin.
//
// gelu: max(x, 0) - a P(-a), a = |x|, P the normal distribution; a P(-a) is exp(-a^2/2) times a
// function by 16 pieces of degree 5, which the exponent and two bits of a + 1 choose. The
// exponential takes 2^(k/8) from a table, so that its polynomial has degree 3. a^2 less a multiple
// of ln 2 / 4 is exact but for one rounding.
//
// tanh, erf: f(c) + d q(d), d = |x| - c, by 16 pieces with q of degree 5, chosen as gelu chooses;
// each c is one for which f(c) is all but a float, and the first piece is x + x q(x). erfinv: x
// times a function of w = -log((1 - x)(1 + x)) by 16 pieces; in float64 a start to about 20 bits
// and one step of Halley's method on erf or erfc.
#pragma once

#include "atlas/math/log.h"

namespace hologram::atlas::math {

/// erf x for |x| <= 1, in f64.
template <class F>
F erf_central(F x) {
  return fma(polynomial(x * x, table::erf_f64), x, x);
}

/// erfc a = exp(-a^2) c(t) / (1 + 2 a) for a >= 0, in f64; `precise`: to an f64, else to an f32;
/// `wide`: right where it is below 2^-170 too.
template <bool precise, bool wide, class F>
F erfc_positive(F a) {
  static_assert(precise || !wide);
  a = at_most(a, wide ? 28.0 : 11.0);
  F up = a + 4.0, down = fma(a, 2.0, 1.0);
  if constexpr (!precise) {  // the square of an f32 is exact
    F inverse = 1.0 / (up * down);
    F ratio = polynomial((a - 4.0) * (down * inverse), table::erfcx_short_f64) * (up * inverse);
    auto [r, scale] = exp_argument(-(a * a), 0);
    return fma(expm1_reduced<Use::brief_part>(r), ratio, ratio) * scale;
  } else {
    F ratio = polynomial_below<3>((a - 4.0) / up, table::erfcx_f64) / down;
    Double<F> square = exact_product(a, a);
    F x = -square.hi;
    if constexpr (wide) x = at_least(x, exp_low<double>);
    const WideScale<F> down_scale = scale_down(x);
    auto [r, scale] = wide ? exp_argument(x, down_scale.magic) : exp_argument(x, 0);
    F y = fma(expm1_reduced(r - square.lo), ratio, ratio) * scale;
    return wide ? y * down_scale.after : y;
  }
}

template <bool precise = true, class F>
F erfc(F x) {
  F a = abs(x);
  F far = erfc_positive<precise, precise>(a);
  far = select(x < 0.0, far.of(2) - far, far);
  return precise ? select(a < 0.5, x.of(1) - erf_central(x), far) : far;
}

/// By pieces in f32.
template <class B>
Num<B, float> erf(Num<B, float> x) {
  return odd_by_pieces(x, 3.93f, 3.8125f, table::erf_centre, table::erf_0, table::erf_6,
                       table::erf_5, table::erf_4, table::erf_3, table::erf_2, table::erf_1);
}
template <class B>
Num<B, double> erf(Num<B, double> x) {
  Num<B, double> a = abs(x);
  return select(a < 1.0, erf_central(x), copysign(x.of(1) - erfc_positive<true, false>(a), x));
}

/// 2 ln 2 in two pieces: multiples of 1/8 up to 2^8 times the first one are exact.
inline constexpr float twice_ln2_hi = 0x1.62ep+0f, twice_ln2_lo = 0x1.0bfbe8p-14f;

/// x Phi(x) = max(x, 0) - exp(-a^2/2) c(a), a = |x|: c by pieces, the exponential by eighths of
/// powers of two. The product is 2^64 times as large until its sum, so that it stays normal. -inf
/// gives NaN as in 0.5 x (1 + erf(x / sqrt 2)).
template <class B>
Num<B, float> gelu(Num<B, float> x) {
  using F = Num<B, float>;
  F a = at_most(abs(x), 14.75f);
  constexpr float magic = 0x1.8p20f;  // the low bits of t are 8 n, n = -a^2/2 log2 e
  F t = fma(a * a, -0.5f * Format<float>::log2e, magic);
  F n = t - magic;
  F r = fma(n, twice_ln2_lo, fma(a, a, n * twice_ln2_hi));
  auto eighths = to_bits(t);
  F power = from_bits<float>(lookup(eighths, table::power_eighth) + (eighths << 20));
  constexpr float down = -0x1p-64f;
  auto [c1, c2, c3] = table::exp_eighth_f32;
  F e = fma(fma(fma(r, c3 / -8 * down, c2 / 4 * down), r, c1 / -2 * down), r, down);
  auto piece = to_bits(a + 1.0f) >> 21;
  F d = a - lookup(piece, table::gelu_centre);
  F c = lookup(piece, table::gelu_5);
  c = fma(c, d, lookup(piece, table::gelu_4));
  c = fma(c, d, lookup(piece, table::gelu_3));
  c = fma(c, d, lookup(piece, table::gelu_2));
  c = fma(c, d, lookup(piece, table::gelu_1));
  c = fma(c, d, lookup(piece, table::gelu_0));
  return fma(c * power, e, select(x < 0.0f, x * 0.0f, x));
}

/// The same with erfcx, and by erf near 0.
template <class B>
Num<B, double> gelu(Num<B, double> x) {
  using F = Num<B, double>;
  F xc = at_most(at_least(x, -40.0), 40.0);
  // a / sqrt 2 in two pieces; erfcx at the rounded one, corrected to first order
  constexpr double root_hi = 0x1.6a09e667f3bcdp-1, root_lo = -0x1.bdd3413b26456p-55;
  F a = abs(xc);
  F s = a * root_hi, s_lo = fma(a, root_hi, -s) + a * root_lo;
  F t = (s - 4.0) / (s + 4.0);
  F ratio = polynomial_below<3>(t, table::erfcx_f64) / fma(s, 2.0, 1.0);
  // d/ds erfcx = 2 s erfcx - 2/sqrt(pi)
  ratio = fma(s_lo, fma(ratio, s * 2.0, -0x1.20dd750429b6dp+0), ratio);
  F half = xc * -0.5;
  Double<F> p = exact_product(half, xc);
  auto [r, scale] = exp_argument(p.hi, 256);
  ratio = ratio * 0.5;
  F y = fma(expm1_reduced(r + p.lo), ratio, ratio);
  y = y * (xc * scale) * 0x1p-256;
  y = select(x > 0.0, x - y, y);
  y = select(a < 0.65, x * fma(erf_central(x * root_hi), 0.5, 0.5), y);
  return select(x == x.of(-Format<double>::infinity), Format<double>::nan, y);
}

/// x c(w), w = -log(1 - x^2), c by pieces.
template <class B>
Num<B, float> erfinv(Num<B, float> x) {
  using F = Num<B, float>;
  F a = abs(x);
  F w = -log((x.of(1) - a) * (a + 1.0f));
  auto piece = to_bits(fma(w, 0.9375f, 1.0f)) >> 21;
  F d = w - lookup(piece, table::erfinv_centre);
  F c = lookup(piece, table::erfinv_4);
  c = fma(c, d, lookup(piece, table::erfinv_3));
  c = fma(c, d, lookup(piece, table::erfinv_2));
  c = fma(c, d, lookup(piece, table::erfinv_1));
  c = fma(c, d, lookup(piece, table::erfinv_0));
  return select(w < Format<float>::infinity, c, w) * x;
}

/// A rational start, then one step of Halley's method on erf or, near 1, erfc. In f64.
template <class B>
Num<B, double> erfinv(Num<B, double> x) {
  using F = Num<B, double>;
  F a = abs(x);
  F complement = x.of(1) - a;
  F w = -log(complement * (a + 1.0));
  F tail = at_most(sqrt(w), 6.1) - 4.0;
  F start = select(w < 5.0, polynomial(at_most(w, 5.0) - 2.5, table::erfinv_f64),
                   polynomial(tail, table::erfinv_tail_f64)) *
            a;
  F miss = select(a < 0.5, erf(start) - a, complement - erfc(start));
  F u = miss * 0x1.c5bf891b4ef6bp-1 * exp(start * start);  // sqrt(pi)/2
  F y = start - u / fma(u, start, 1.0);
  y = select(a < 0x1p-1000, a * 0x1.c5bf891b4ef6bp-1, y);
  y = select(a == 1.0, Format<double>::infinity, y);
  y = select(a <= x.of(1), y, Format<double>::nan);
  return copysign(y, x);
}

}  // namespace hologram::atlas::math
