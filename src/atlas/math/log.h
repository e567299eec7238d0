// atlas/math/log.h: logarithms, powers and the inverse hyperbolic functions.
//
// The significand lies in [2/3, 4/3) (float32) or [sqrt 1/2, sqrt 2) (float64); k ln 2 is exact and
// added without loss.
#pragma once

#include "atlas/math/exp.h"

namespace hologram::atlas::math {

/// ln 2, log10 2 and 1 as k * hi exactly (k an exponent) plus k * lo; log2 e and log10 e in two
/// pieces.
template <class T>
struct LogBase {
  T power_hi, power_lo, scale_hi, scale_lo;
};
template <class T>
inline constexpr LogBase<T> natural{};
template <>
inline constexpr LogBase<float> natural<float>{0x1.62e4p-1f, 0x1.7f7d1cp-20f, 1, 0};
template <>
inline constexpr LogBase<double> natural<double>{0x1.62e42fefa38p-1, 0x1.ef35793c7673p-45, 1, 0};
template <class T>
inline constexpr LogBase<T> base_2{};
template <>
inline constexpr LogBase<float> base_2<float>{1, 0, 0x1.715476p+0f, 0x1.4ae0cp-26f};
template <>
inline constexpr LogBase<double> base_2<double>{1, 0, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
template <class T>
inline constexpr LogBase<T> base_10{};
template <>
inline constexpr LogBase<float> base_10<float>{0x1.344p-2f, 0x1.3509f8p-18f, 0x1.bcb7b2p-2f,
                                               -0x1.5b235ep-27f};
template <>
inline constexpr LogBase<double> base_10<double>{0x1.34413509f78p-2, 0x1.fef311f12b358p-46,
                                                 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};

/// x = 2^exponent (1 + f) with 1 + f in [2/3, 4/3) or [sqrt(1/2), sqrt 2).
template <class F>
struct LogArgument {
  F exponent, f;
};

/// The bits of the least significand taken: 2/3 in f32, where log(1 + f) is a series in f,
/// sqrt(1/2) in f64, where it is one in f/(2 + f).
template <class T>
inline constexpr IntOf<T> least_bits = sizeof(T) == 4 ? IntOf<T>(0x3f2aaaab)
                                                      : IntOf<T>(0x3fe6a09e667f3bcd);
template <class T>
inline constexpr IntOf<T> fraction_mask = (IntOf<T>(1) << Format<T>::fraction_bits) - 1;

/// An integer of exponent size as a float: through the low bits of round_magic.
template <class T, class B>
Num<B, T> small_integer(Num<B, IntOf<T>> i) {
  if constexpr (sizeof(T) == 4)
    return convert<float>(i);
  else {
    Num<B, double> like{i.b};
    auto magic = to_bits(like.of(Format<double>::round_magic));
    return from_bits<double>(i + magic) - Format<double>::round_magic;
  }
}

/// For positive x, subnormal ones included.
template <class F>
LogArgument<F> log_argument(F x) {
  using T = ScalarOf<F>;
  using Fm = Format<T>;
  constexpr T up = sizeof(T) == 4 ? T(0x1p24) : T(0x1p54);
  auto tiny = x < Fm::min_normal;
  F scaled = select(tiny, x * up, x);
  auto i = to_bits(scaled) - least_bits<T>;
  F exponent = small_integer<T>(i >> Fm::fraction_bits) +
               choose(tiny, x, sizeof(T) == 4 ? T(-24) : T(-54), T(0));
  F m = from_bits<T>((i & fraction_mask<T>)+least_bits<T>);
  return {exponent, m - T(1)};
}

/// scale * (log(1 + f) - f) + lo, given main = scale * f.
template <class F>
F log_tail(F f, F main, ScalarOf<F> scale, F lo) {
  using T = ScalarOf<F>;
  if constexpr (sizeof(T) == 4) {
    F square = f * f, c = polynomial(f, table::log_f32);
    if (scale == 1) return fma(fma(f, c, T(-0.5)), square, lo);
    return fma(f, main * T(-0.5), fma(c * square, main, lo));
  } else {
    F s = f / (f + T(2)), z = s * s, half = f * f * T(0.5);
    F tail = fma(s, fma(z, polynomial(z, table::log_f64), half), -half);
    return scale != 1 ? fma(tail, scale, lo) : tail + lo;
  }
}

/// exponent * log 2 + log(1 + f) to the base; `low`, if any, is a small number to add.
template <class F>
F log_combine(LogArgument<F> a, const LogBase<ScalarOf<F>>& base, const F* low = nullptr) {
  auto [k, f] = a;
  F main = base.scale_hi != 1 ? f * base.scale_hi : f;
  auto [hi, lo] = fast_sum(k * base.power_hi, main);
  if (base.power_lo != 0) lo = fma(k, base.power_lo, lo);
  if (base.scale_hi != 1) lo = lo + fma(f, base.scale_lo, fma(f, base.scale_hi, -main));
  if (low) lo = lo + *low;
  return hi + log_tail(f, main, base.scale_hi, lo);
}

/// What a logarithm gives at 0, below 0, at infinity and for NaN.
template <class F>
F log_special(F x, F y) {
  using T = ScalarOf<F>;
  using Fm = Format<T>;
  y = select(x < Fm::infinity, y, x);
  return select(x <= T(0), choose(x < T(0), x, Fm::nan, -Fm::infinity), y);
}

template <class F>
F log_of(F x, const LogBase<ScalarOf<F>>& base) {
  return log_special(x, log_combine(log_argument(x), base));
}

template <class F>
F log(F x) {
  return log_of(x, natural<ScalarOf<F>>);
}
template <class F>
F log2(F x) {
  return log_of(x, base_2<ScalarOf<F>>);
}
template <class F>
F log10(F x) {
  return log_of(x, base_10<ScalarOf<F>>);
}

template <class F>
F log1p(F x) {
  using T = ScalarOf<F>;
  using Fm = Format<T>;
  auto [u, u_low] = exact_sum(x, x.of(1));
  auto i = to_bits(u) - least_bits<T>;
  auto e = i >> Fm::fraction_bits;
  F m = from_bits<T>((i & fraction_mask<T>)+least_bits<T>);
  // u_low scaled as u was, by 2^(1 - e) / 2 since e may be one above the largest exponent
  constexpr IntOf<T> two = IntOf<T>(Fm::bias + 1) << Fm::fraction_bits;
  F scale = from_bits<T>(e.of(two) - (e << Fm::fraction_bits));
  auto [f, f_low] = exact_sum(m - T(1), u_low * T(0.5) * scale);
  F low = fma(-f, f_low, f_low);  // f_low / (1 + f)
  F y = log_combine({small_integer<T>(e), f}, natural<T>, &low);
  y = select(x < Fm::infinity, y, x);
  y = select(x <= T(-1), choose(x < T(-1), x, Fm::nan, -Fm::infinity), y);
  return select(abs(x) < (sizeof(T) == 4 ? T(0x1p-25) : T(0x1p-54)), x, y);
}

template <class F>
F asinh(F x) {
  using T = ScalarOf<F>;
  constexpr T large = sizeof(T) == 4 ? T(0x1p14) : T(0x1p30);
  F a = abs(x), b = at_most(a, large), square = b * b;
  auto big = a > large;
  F y = log1p(select(big, a - T(1), b + square / (sqrt(square + T(1)) + T(1))));
  y = y + choose(big, x, Format<T>::ln2_hi, T(0));
  return select(a < (sizeof(T) == 4 ? T(0x1p-13) : T(0x1p-27)), x, copysign(y, x));
}

template <class F>
F acosh(F x) {
  using T = ScalarOf<F>;
  constexpr T large = sizeof(T) == 4 ? T(0x1p14) : T(0x1p30);
  auto big = x > large;
  F t = at_most(x, large) - T(1);
  F y = log1p(select(big, x - T(1), t + sqrt(fma(t, t, t * T(2)))));
  y = y + choose(big, x, Format<T>::ln2_hi, T(0));
  return select(x < T(1), Format<T>::nan, y);
}

template <class F>
F atanh(F x) {
  using T = ScalarOf<F>;
  F a = abs(x);
  F y = log1p(a * T(2) / (a.of(1) - a)) * T(0.5);
  return select(a < (sizeof(T) == 4 ? T(0x1p-13) : T(0x1p-27)), x, copysign(y, x));
}

/// log x to about 66 bits for positive finite x, in f64.
template <class F>
Double<F> long_log(F x) {
  auto [k, f] = log_argument(x);
  Double<F> d = fast_sum(f.of(2), f);
  F s_hi = f / d.hi;
  F s_lo = (fma(-s_hi, d.hi, f) - s_hi * d.lo) / d.hi;
  Double<F> s{s_hi, s_lo};
  Double<F> z = s * s;
  Double<F> two_thirds{f.of(0x1.5555555555555p-1), f.of(0x1.5555555555555p-55)};
  Double<F> cube = s * z;
  Double<F> third = cube * two_thirds;
  F rest = cube.hi * z.hi * polynomial(z.hi, table::log_tail_f64);
  Double<F> power = fast_sum(k * natural<double>.power_hi, k * natural<double>.power_lo);
  Double<F> sum = power + Double<F>{s_hi * 2.0, s_lo * 2.0};
  return sum + fast_sum(third.hi, third.lo + rest);
}

/// log of a non-negative f32 in f64, to about 36 bits.
template <class F>
F brief_log(F x) {
  auto i = to_bits(x) - least_bits<double>;
  F k = small_integer<double>(i >> 52);
  F f = from_bits<double>((i & fraction_mask<double>)+least_bits<double>) - 1.0;
  F s = f / (f + 2.0), z = s * s;
  F y = fma(k, Format<double>::ln2_hi, s * fma(z, polynomial(z, table::log_brief_f64), 2.0));
  y = select(x < Format<double>::infinity, y, x);
  return select(x == 0.0, -Format<double>::infinity, y);
}

/// |x|^y in f64; `precise`: to an f64, else to an f32.
template <bool precise, class F>
F power_of_magnitude(F a, F y) {
  F inf = a.of(Format<double>::infinity);
  if constexpr (!precise) {
    return exp<Use::brief_part>(select(a == 1.0, 0.0, y * brief_log(a)));
  } else {
    auto ordinary = (a < inf) & (a > 0.0);
    Double<F> l = long_log(a);
    F y_in = at_most(at_least(y, -0x1p80),
                     0x1p80);  // keeps the products finite; what it changes overflows anyway
    Double<F> p = exact_product(y_in, l.hi);
    p = fast_sum(p.hi, fma(y_in, l.lo, p.lo));
    F finite = exp_sum(p.hi, select(abs(p.hi) < 1000.0, p.lo, 0.0));
    F limit = exp(y * select(a == 0.0, -Format<double>::infinity, a));
    return select(a == 1.0, 1.0, select(ordinary, finite, limit));
  }
}

/// C's pow in f64.
template <bool precise, class F>
F pow(F x, F y) {
  F magnitude = power_of_magnitude<precise>(abs(x), y);
  F inf = x.of(Format<double>::infinity);
  F half = y * 0.5;
  auto integer = trunc(y) == y;
  auto odd = integer & (trunc(half) != half);
  F signed_one = copysign(x.of(1), x);
  F result = select(odd & (signed_one < 0.0), -magnitude, magnitude);
  result = select((x < 0.0) & ((-inf) < x) & (trunc(y) != y), Format<double>::nan, result);
  result = select(x == x, result, x);
  result = select(y == y, result, y);
  auto one = (y == 0.0) | (x == 1.0);
  return select(one, 1.0, result);
}

}  // namespace hologram::atlas::math
