// atlas/math/exp.h: exp, exp2, expm1, sigmoid and the hyperbolic functions made from them.
//
// exp: x = n ln 2 + r with r in [log(3/4), log(3/2)], where the roundings of r and e^r - 1 stay
// well below that of the sum; 2^n in two factors, so that subnormal results round once. AVX-512
// scales float32 by its own instruction: the same bits for all 2^32 inputs.
//
// sigmoid, expm1: what the decisive sums and quotients round away is computed by fma and added
// back.
#pragma once

#include "atlas/math/num.h"
#include "atlas/math/tables.h"

namespace hologram::atlas::math {

/// How a floating-point format is laid out, and ln 2 in two pieces of it.
template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr int fraction_bits = 23, bias = 127;
  static constexpr float round_magic = 0x1.8p23f;  // x + round_magic has round(x) in its low bits
  static constexpr float log2e = 0x1.715476p+0f, ln2_hi = 0x1.62e43p-1f, ln2_lo = -0x1.05c61p-29f;
  static constexpr float infinity = __builtin_inff(), nan = __builtin_nanf("");
  static constexpr float min_normal = 0x1p-126f;
};
template <>
struct Format<double> {
  static constexpr int fraction_bits = 52, bias = 1023;
  static constexpr double round_magic = 0x1.8p52;
  static constexpr double log2e = 0x1.71547652b82fep+0, ln2_hi = 0x1.62e42fefa39efp-1,
                          ln2_lo = 0x1.abc9e3b39803fp-56;
  static constexpr double infinity = __builtin_inf(), nan = __builtin_nan("");
  static constexpr double min_normal = 0x1p-1022;
};

/// x = n ln 2 + r with |r| <= ln 2 / 2 (and a rounding), scale = 2^(n + offset).
template <class F>
struct ExpArgument {
  F r, scale;
};

/// `magic` = round_magic + bias + offset; n + bias + offset must be a valid exponent field.
template <class F>
ExpArgument<F> exp_argument(F x, F magic) {
  using T = ScalarOf<F>;
  using Fm = Format<T>;
  F t = fma(x, Fm::log2e, magic);
  F n = t - magic;
  F r = fma(n, -Fm::ln2_lo, fma(n, -Fm::ln2_hi, x));
  return {r, from_bits<T>(to_bits(t) << Fm::fraction_bits)};
}
template <class F>
ExpArgument<F> exp_argument(F x, int offset) {
  using Fm = Format<ScalarOf<F>>;
  return exp_argument(x, x.of(Fm::round_magic + (Fm::bias + offset)));
}

/// What a polynomial is made for: e^r - 1 as part of e^r, by itself (right to the last place also
/// near 0), and the same in f64 for results in f32.
enum class Use { part, whole, brief_part, brief_whole };

/// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2.
template <Use use = Use::part, class F>
F expm1_coefficient(F r) {
  if constexpr (sizeof(ScalarOf<F>) == 4) {
    if constexpr (use == Use::whole)
      return polynomial(r, table::expm1_f32);
    else
      return polynomial(r, table::exp_f32);
  } else {
    if constexpr (use == Use::whole)
      return polynomial(r, table::expm1_f64);
    else if constexpr (use == Use::brief_part)
      return polynomial(r, table::exp_brief_f64);
    else if constexpr (use == Use::brief_whole)
      return polynomial(r, table::expm1_brief_f64);
    else
      return polynomial(r, table::exp_f64);
  }
}
template <Use use = Use::part, class F>
F expm1_reduced(F r) {
  return fma(expm1_coefficient<use>(r), r * r, r);
}

/// The scaling of a result whose exponent may leave the normal range: 2^n = scale * after, with
/// scale normal.
template <class F>
struct WideScale {
  F magic, after;
};
/// The same for x of at most 0, or NaN.
template <class F>
WideScale<F> scale_down(F x) {
  using T = ScalarOf<F>;
  using Fm = Format<T>;
  constexpr bool single = sizeof(T) == 4;
  return {x.of(Fm::round_magic + (Fm::bias + (single ? 63 : 127))),
          x.of(single ? T(0x1p-63) : T(0x1p-127))};
}
template <class F>
WideScale<F> wide_scale(F x) {
  using T = ScalarOf<F>;
  using Fm = Format<T>;
  // magic is even either way, so that halves round to even
  auto negative = x < T(0);
  const WideScale<F> below = scale_down(x);
  return {select(negative, below.magic, Fm::round_magic + (Fm::bias - 3)),
          select(negative, below.after, T(8))};
}

template <class T>
inline constexpr T exp_low = sizeof(T) == 4 ? T(-104) : T(-746);
template <class T>
inline constexpr T exp_high = sizeof(T) == 4 ? T(89) : T(710);

/// e^(x + low), |low| far below 1.
template <class F>
F exp_sum(F x, F low) {
  using T = ScalarOf<F>;
  x = at_most(at_least(x, exp_low<T>), exp_high<T>);
  auto [magic, after] = wide_scale(x);
  auto [r, scale] = exp_argument(x, magic);
  return fma(expm1_reduced(r + low), scale, scale) * after;
}

/// In f32 the argument is reduced to [log(3/4), log(3/2)], where r and e^r - 1 round well below the
/// sum: x = n ln 2 + r with n this number rounded to nearest, halves to even.
template <class B>
Num<B, float> exp_power(Num<B, float> x) {
  return fma(x, Format<float>::log2e, -0.085f);
}
/// e^(x - n ln 2) - 1.
template <class B>
Num<B, float> exp_rest(Num<B, float> x, Num<B, float> n) {
  using Fm = Format<float>;
  auto r = fma(n, -Fm::ln2_lo, fma(n, -Fm::ln2_hi, x));
  return fma(polynomial(r, table::exp_shifted_f32), r * r, r);
}
/// `bounded`: x is at most 0, or NaN; then the scaling of negative numbers serves, also for 0.
template <class B>
Num<B, float> exp(Num<B, float> x, bool bounded = false) {
  x = at_least(x, exp_low<float>);
  if (!bounded) x = at_most(x, exp_high<float>);
  auto [magic, after] = bounded ? scale_down(x) : wide_scale(x);
  auto t = exp_power(x) + magic;
  auto q = exp_rest(x, t - magic);
  auto scale = from_bits<float>(to_bits(t) << Format<float>::fraction_bits);
  return fma(q, scale, scale) * after;
}
/// The same bits with `scale(y, n)` = y 2^n rounded once, which some processors have. Far above,
/// n stays at 128 and the rest grows, as its coefficients are positive, so that the result is
/// infinite; NaN comes by the rest too. Far below, whatever comes out gives way to 0: the
/// comparison is beside the chain of operations, not in it. `bounded`: x is at most 0, or NaN.
template <class B, class Scale>
Num<B, float> exp_scaled(Num<B, float> x, Scale scale, bool bounded = false) {
  auto n = round(exp_power(x));
  if (!bounded) n = at_most(n, 128.0f);
  return select(x < exp_low<float>, 0.0f, scale(exp_rest(x, n) + 1.0f, n));
}
template <Use use = Use::part, class B>
Num<B, double> exp(Num<B, double> x) {
  x = at_most(at_least(x, exp_low<double>), exp_high<double>);
  auto [magic, after] = wide_scale(x);
  auto [r, scale] = exp_argument(x, magic);
  return fma(expm1_reduced<use>(r), scale, scale) * after;
}

template <class F>
F exp2(F x) {
  using T = ScalarOf<F>;
  using Fm = Format<T>;
  x = at_most(at_least(x, sizeof(T) == 4 ? T(-151) : T(-1076)), sizeof(T) == 4 ? T(129) : T(1025));
  auto [magic, after] = wide_scale(x);
  F t = x + magic;
  F r = x - (t - magic);
  F scale = from_bits<T>(to_bits(t) << Fm::fraction_bits);
  if constexpr (sizeof(T) == 4) {
    F tail = fma(r * r, polynomial(r, table::exp2_f32), r * Fm::ln2_lo);
    return fma(fma(r, Fm::ln2_hi, tail), scale, scale) * after;
  } else {
    F y = r * Fm::ln2_hi;
    F low = fma(r, Fm::ln2_lo, fma(r, Fm::ln2_hi, -y));
    F q = y + fma(expm1_coefficient(y), y * y, low);
    return fma(q, scale, scale) * after;
  }
}

/// Both sums of s (1 + q) - 1 keep what they round away.
template <class F>
F expm1(F x) {
  using T = ScalarOf<F>;
  using Fm = Format<T>;
  F xc = at_most(at_least(x, sizeof(T) == 4 ? T(-20) : T(-40)), exp_high<T>);
  F t = fma(xc, Fm::log2e, x.of(Fm::round_magic + (Fm::bias - 1)));
  F n = t - (Fm::round_magic + (Fm::bias - 1));
  F half = from_bits<T>(to_bits(t) << Fm::fraction_bits);  // 2^(n - 1)
  F main = fma(n, -Fm::ln2_hi, xc), rest = n * -Fm::ln2_lo;
  F r = main + rest;
  auto [q, q_low] = fast_sum(main, fma(expm1_coefficient<Use::whole>(r), r * r, rest));
  F below = half - T(0.5);
  F y = fma(half, q, below);
  F y_low = fma(half, q, below - y) + ((half - below) - T(0.5));
  y = (y + fma(half, q_low, y_low)) * T(2);
  return select(abs(x) < (sizeof(T) == 4 ? T(0x1p-25) : T(0x1p-54)), x, y);
}

/// 1 / (1 + e^-x): the denominator in two pieces, the quotient corrected by its residual. All is
/// scaled by `one`, so that the denominator stays finite where the result is subnormal.
template <class F>
F sigmoid(F x) {
  using T = ScalarOf<F>;
  constexpr bool single = sizeof(T) == 4;
  constexpr T one = single ? T(0x1p-40) : T(0x1p-200);
  F y = at_most(at_least(-x, single ? T(-40) : T(-80)), single ? T(104) : T(746));
  auto [r, scale] = exp_argument(y, single ? -40 : -200);
  F q = expm1_reduced(r);
  F d = fma(scale, q, scale + one);
  F d_low = fma(scale, q, one - (d - scale));
  F inverse = T(1) / d;
  F residual = fma(-inverse, d_low, fma(-inverse, d, T(1)));
  return fma(residual, inverse, inverse) * one;
}

/// An odd function that is 1 from `top` on: f(c) + d q(d), d = |x| - c, by 16 pieces that the
/// exponent and two bits of scale |x| + 1 choose, x + x q(x) on the first one. f(c) is all but a
/// float, so little is rounded before the last sum. q's coefficients, the highest first, then f(c).
template <class B, class Table, class... Tables>
Num<B, float> odd_by_pieces(Num<B, float> x, float top, float scale, const Table& centre,
                            const Table& values, const Table& highest, const Tables&... lower) {
  using F = Num<B, float>;
  F a = at_most(abs(x), top);
  F u = fma(a, scale, 1.0f);
  auto piece = to_bits(u) >> 21;
  F d = a - lookup(piece, centre);
  F q = lookup(piece, highest);
  ((q = fma(q, d, lookup(piece, lower))), ...);
  return copysign(fma(q, d, select(u < 1.25f, a, lookup(piece, values))), x);
}

/// By pieces (f32) or (e^2a - 1)/(e^2a + 1) and beyond 0.55 1 - 2/(e^2a + 1) (f64).
template <class B>
Num<B, float> tanh(Num<B, float> x) {
  return odd_by_pieces(x, 9.02f, 1.6625f, table::tanh_centre, table::tanh_0, table::tanh_6,
                       table::tanh_5, table::tanh_4, table::tanh_3, table::tanh_2, table::tanh_1);
}
template <class B>
Num<B, double> tanh(Num<B, double> x) {
  using F = Num<B, double>;
  auto [r, scale] = exp_argument(at_most(abs(x) * 2.0, 40.0), 0);
  F q = expm1_reduced<Use::whole>(r);
  F d = fma(scale, q, scale + 1.0);
  auto far = abs(x) > 0.55;
  F y = select(far, 2.0, fma(scale, q, scale - 1.0)) / d;
  y = copysign(select(far, x.of(1) - y, y), x);
  return select(abs(x) < 0x1p-27, x, y);
}

/// In f64; `precise`: to an f64, else to an f32.
template <bool precise, class F>
F sinh(F x) {
  F a = at_most(abs(x), precise ? 710.6 : 100.0);
  auto [r, quarter] = exp_argument(a, -2);
  F q = expm1_reduced < precise ? Use::whole : Use::brief_whole > (r);
  F half = fma(quarter, q, quarter - 0.25) * 2.0;  // (e^a - 1)/2
  F y = half + half / fma(half, 2.0, 1.0);
  if constexpr (precise) y = select(half < Format<double>::infinity, y, half);
  y = select(abs(x) < 0x1p-27, x, copysign(y, x));
  return precise ? select(x == x, y, x) : y;
}
template <bool precise, class F>
F cosh(F x) {
  F a = at_most(abs(x), precise ? 710.6 : 100.0);
  auto [r, quarter] = exp_argument(a, -2);
  F q = expm1_reduced < precise ? Use::part : Use::brief_part > (r);
  F half = fma(q, quarter, quarter) * 2.0;  // e^a / 2
  return half + 0.25 / half;
}

}  // namespace hologram::atlas::math
