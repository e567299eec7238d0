// atlas/math/trig.h: trigonometric functions and their inverses.
//
// Near 0 whole quarter turns are subtracted, pi/2 in pieces. Beyond, x times 1/(2 pi) in pieces
// whose products are exact, so that whole turns drop out for every argument (for float64: five of
// 24 pieces of 53 bits, chosen by the exponent).
#pragma once

#include <utility>

#include "atlas/math/log.h"

namespace hologram::atlas::math {

inline constexpr double half_pi_hi = 0x1.921fb54442d18p+0, half_pi_lo = 0x1.1a62633145c07p-54;

/// The angle of an f64: x = (quarters + r / (pi/2)) quarter turns with |r| <= pi/4; the low two
/// bits of `quarters` count.
template <class F, class I>
struct Angle {
  Double<F> r;
  I quarters;
};

/// 1/(2 pi) in three pieces of 29 bits and a rest, whole and without its first 52 bits: x times a
/// piece is exact in f64 for an f32, its whole turns drop out, and from 2^76 on the first 52 bits
/// give nothing but whole turns.
inline constexpr std::array<double, 4> turns_29{0x1.45f306cp-3, 0x1.c9c882ap-31, 0x1.4fe13a8p-61,
                                                0x1.f47d4d377036ep-88};
inline constexpr std::array<double, 4> turns_29_far{0x1.529fc26p-54, 0x1.57d1f53p-82,
                                                    0x1.377036cp-112, 0x1.8a5664f10e41p-140};

/// The angle of an f32 in f64: r in quarter turns, |r| <= 1/2.
template <class B>
struct QuarterAngle {
  Num<B, double> r;
  Num<B, int64_t> quarters;
};

/// Which arguments a sequence is for.
enum class Reach { any, near };
/// Near are those below.
template <class T>
inline constexpr T near_angles = sizeof(T) == 4 ? T(0x1p28) : T(0x1p19);

/// 2/pi in two pieces.
inline constexpr double quarters_hi = 0x1.45f306dc9c883p-1, quarters_lo = -0x1.6b01ec5417056p-55;

/// For |x| < 2^28: the product with the first piece loses far less than is left of an f32.
template <class B>
QuarterAngle<B> near_angle(Num<B, float> x) {
  using D = Num<B, double>;
  D wide = convert<double>(x);
  D shifted = fma(wide, quarters_hi, wide.of(Format<double>::round_magic));
  D n = shifted - Format<double>::round_magic;
  return {fma(wide, quarters_lo, fma(wide, wide.of(quarters_hi), -n)), to_bits(shifted)};
}
template <class B>
QuarterAngle<B> far_angle(Num<B, float> x) {
  using D = Num<B, double>;
  D wide = convert<double>(x);
  auto far = abs(x) >= 0x1p76f;
  auto piece = [&](int i) { return choose(far, wide, turns_29_far[i], turns_29[i]); };
  auto product = [&](int i) {
    D p = wide * piece(i);
    return p - round(p);
  };
  // near a whole quarter the low bits of the sum decide
  D first = product(0), second = product(1), third = product(2);
  D sum = first + second;
  D turns = sum + third;
  D low = (second - (sum - first)) + (third - (turns - sum));
  low = fma(wide, piece(3), low);
  D shifted = fma(turns, 4.0, wide.of(Format<double>::round_magic));
  D n = shifted - Format<double>::round_magic;
  return {fma(low, 4.0, fma(turns, 4.0, -n)), to_bits(shifted)};
}

/// pi/2 in pieces of 53, 29 and 53 bits.
inline constexpr double half_pi_middle = 0x1.1a62633p-54, half_pi_end = 0x1.45c06e0e68948p-86;

/// For |x| < 2^19: n pi/2 has n of 19 bits. What the first piece leaves is exact, as both are
/// multiples of the first piece's last place; the second one's product has 48 bits, so either
/// nothing is rounded, or hi is more than half of what it is subtracted from, and what rounding
/// took is exact.
template <class B>
auto near_angle(Num<B, double> x) {
  using F = Num<B, double>;
  F shifted = fma(x, quarters_hi, x.of(Format<double>::round_magic));
  F n = shifted - Format<double>::round_magic;
  F left = fma(n, -half_pi_hi, x);
  F hi = fma(n, -half_pi_middle, left);
  F lo = fma(n, -half_pi_end, fma(n, -half_pi_middle, left - hi));
  auto quarters = to_bits(shifted);
  return Angle<F, decltype(quarters)>{{hi, lo}, quarters};
}

/// 1/(2 pi) as a fraction in pieces of 53 bits: enough for any f64.
inline constexpr int turn_pieces = 24;
inline constexpr std::array<double, turn_pieces> turns_53{
    0x1.45f306dc9c880p-3, 0x1.529fc2757d1f5p-1, 0x1.a6ee06db14accp-3,  0x1.3c439041fe514p-3,
    0x1.1d5ef5de2b0dbp-1, 0x1.246e3a424dd2ep-1, 0x1.924bba8274600p-10, 0x1.21cfe1deb1cb0p-3,
    0x1.29a73ee88235ep-2, 0x1.52ebb4484e99cp-1, 0x1.c09ad17df904ep-2,  0x1.91d639835339cp-3,
    0x1.a4e422fc5defcp-1, 0x1.283b1ff897ffdp-1, 0x1.c0b301fde5e23p-1,  0x1.6b414da3eda68p-4,
    0x1.3f6793e584dbap-1, 0x1.e8c7ecd3cbfd4p-2, 0x1.6ba93dd63f5f0p-3,  0x1.7c5ecf41ce7dep-1,
    0x1.4a525d4d7f6bcp-3, 0x1.b11f8d5d08560p-1, 0x1.98237e3db5d5cp-3,  0x1.c33ef0826bd0dp-1};

/// The angle of an f64. With w chosen so that whole pieces before w give whole turns, five pieces
/// from w on decide.
template <class B>
auto far_angle(Num<B, double> x) {
  using F = Num<B, double>;
  constexpr int pieces = 5;
  auto bits = to_bits(x);
  auto field = (bits >> 52) & int64_t{0x7ff};
  // w = floor(max(e - 52, 0) / 53)
  F e = at_least(small_integer<double>(field) - 1075.0, 0.0);
  F w = floor(e * (1.0 / 53) + 0x1p-20);
  auto wi = to_bits(w + Format<double>::round_magic);
  std::array<F, turn_pieces> window;
  for (int i = 0; i < turn_pieces; ++i) window[i] = x.of(turns_53[i]);
  int live = turn_pieces;
  for (int bit = 16; bit > 0; bit /= 2) {
    auto taken = (wi & int64_t{bit}) != wi.of(0);
    int keep = bit - 1 + pieces;
    for (int i = 0; i < keep; ++i) {
      F zero = x.of(0);
      F above = i + bit < live ? window[i + bit] : zero;
      F here = i < live ? window[i] : zero;
      window[i] = select(taken, above, here);
    }
    live = keep;
  }
  // x 2^(-53 w): two steps, the first of which is exact for every x that has w > 0
  auto shift = (wi & int64_t{31}) * int64_t{53};
  auto first = shift >> 1, second = shift - first;
  auto power = [&](auto i) { return from_bits<double>((i.of(1023) - i) << 52); };
  F m = x * power(first) * power(second);
  Double<F> p0 = exact_product(m, window[0]);
  Double<F> p1 = exact_product(m * 0x1p-53, window[1]);
  Double<F> p2 = exact_product(m * 0x1p-106, window[2]);
  F p3 = m * 0x1p-159 * window[3];
  auto fraction = [](F v) { return v - round(v); };
  Double<F> t = exact_sum(fraction(p0.hi), fraction(p0.lo));
  t = t + exact_sum(fraction(p1.hi), p1.lo);
  t = t + p2;
  t = t + Double<F>{p3, m * 0x1p-212 * window[4]};
  F n = round(t.hi * 4.0);
  Double<F> quarter = fast_sum(fma(t.hi, 4.0, -n), t.lo * 4.0);
  Double<F> r = quarter * Double<F>{x.of(half_pi_hi), x.of(half_pi_lo)};
  auto quarters = to_bits(n + Format<double>::round_magic);
  return Angle<F, decltype(quarters)>{r, quarters};
}

template <class F, class I>
Angle<F, I> choose_angle(Num<typename F::Arithmetic, bool> c, const Angle<F, I>& x,
                         const Angle<F, I>& y) {
  return {{select(c, x.r.hi, y.r.hi), select(c, x.r.lo, y.r.lo)},
          select(c, x.quarters, y.quarters)};
}
template <class B>
QuarterAngle<B> choose_angle(Num<B, bool> c, const QuarterAngle<B>& x, const QuarterAngle<B>& y) {
  return {select(c, x.r, y.r), select(c, x.quarters, y.quarters)};
}

template <Reach reach, class F>
auto reduce_angle(F x) {
  if constexpr (reach == Reach::near)
    return near_angle(x);
  else
    return choose_angle(abs(x) < near_angles<ScalarOf<F>>, near_angle(x), far_angle(x));
}

/// sin(r.hi + r.lo) for |r| <= pi/4.
template <class F>
F sin_reduced(Double<F> r) {
  F z = r.hi * r.hi;
  return r.hi + fma(polynomial(z, table::sin_f64), z * r.hi, r.lo);
}
/// cos(r.hi + r.lo): 1 - z/2 in two pieces.
template <class F>
F cos_reduced(Double<F> r) {
  F z = r.hi * r.hi, half = z * 0.5, one = half.of(1) - half;
  F low = (half.of(1) - one) - half;
  return one + fma(z * z, polynomial(z, table::cos_f64), low - r.hi * r.lo);
}

/// Sine and cosine of an angle without its quarters.
template <class F, class I>
std::pair<F, F> sin_cos(const Angle<F, I>& a) {
  return {sin_reduced(a.r), cos_reduced(a.r)};
}
template <class B>
auto sin_cos(const QuarterAngle<B>& a) {
  auto z = a.r * a.r;
  return std::pair{polynomial(z, table::sin_quarter_f64) * a.r,
                   polynomial(z, table::cos_quarter_f64)};
}

/// sin of an angle and `offset` quarter turns, in f64.
template <class A>
auto sin_of(const A& a, int offset) {
  auto q = offset == 0 ? a.quarters : a.quarters + int64_t{offset};
  auto [s, c] = sin_cos(a);
  auto y = select((q & int64_t{1}) != q.of(0), c, s);
  return from_bits<double>(to_bits(y) ^ ((q & int64_t{2}) << 62));
}
template <class A>
auto tan_of(const A& a) {
  auto [s, c] = sin_cos(a);
  auto odd = (a.quarters & int64_t{1}) != a.quarters.of(0);
  return select(odd, c, s) / select(odd, -s, c);
}

/// A value made of an angle in f64, in the type of an argument.
template <class T, class B>
Num<B, T> narrowed(Num<B, double> y) {
  if constexpr (sizeof(T) == 4)
    return convert<float>(y);
  else
    return y;
}
/// Below it sin x = tan x = x.
template <class T>
inline constexpr T least_angle = sizeof(T) == 4 ? T(0x1p-13) : T(0x1p-27);

template <Reach reach = Reach::any, class B, class T>
Num<B, T> sin(Num<B, T> x) {
  return select(abs(x) < least_angle<T>, x, narrowed<T>(sin_of(reduce_angle<reach>(x), 0)));
}
template <Reach reach = Reach::any, class B, class T>
Num<B, T> cos(Num<B, T> x) {
  return narrowed<T>(sin_of(reduce_angle<reach>(x), 1));
}
template <Reach reach = Reach::any, class B, class T>
Num<B, T> tan(Num<B, T> x) {
  return select(abs(x) < least_angle<T>, x, narrowed<T>(tan_of(reduce_angle<reach>(x))));
}

/// asin s - s for |s| <= 1/2, s^2 = z, in f64; `precise`, here and below: to an f64, else to an
/// f32.
template <bool precise, class F>
F asin_tail(F s, F z) {
  if constexpr (precise)
    return s * z * polynomial(z, table::asin_f64);
  else
    return s * z * polynomial(z, table::asin_brief_f64);
}
/// What sqrt z lacks, given root = sqrt z rounded.
template <bool precise, class F>
F root_low(F root, F z) {
  if constexpr (!precise)
    return z.of(0);
  else
    return select(z == 0.0, 0.0, fma(-root, root, z) / (root + root));
}

/// In f64: beyond 1/2, asin a = pi/2 - 2 asin sqrt((1 - a)/2).
template <bool precise, class F>
F asin(F x) {
  F a = abs(x);
  auto small = a < 0.5;
  F z = select(small, a * a, fma(a, -0.5, 0.5));
  F root = sqrt(z), s = select(small, a, root);
  F tail = asin_tail<precise>(s, z);
  F far = half_pi_hi - fma(root, 2.0, fma(tail + root_low<precise>(root, z), 2.0, -half_pi_lo));
  return select(a < 0x1p-27, x, copysign(select(small, s + tail, far), x));
}

template <bool precise, class F>
F acos(F x) {
  F a = abs(x);
  auto small = a < 0.5;
  F z = select(small, a * a, fma(a, -0.5, 0.5));
  F root = sqrt(z), s = select(small, x, root);
  F tail = asin_tail<precise>(s, z);
  F low = tail + root_low<precise>(root, z);
  F middle = half_pi_hi - (x - (half_pi_lo - tail));
  F right = (root + low) * 2.0;
  F left = half_pi_hi * 2.0 - fma(root, 2.0, fma(low, 2.0, -half_pi_lo * 2.0));
  return select(small, middle, select(x < 0.0, left, right));
}

/// base + atan(n / d) for 0 <= n <= d, d > 0, in f64, base in two pieces; negated: base - atan.
template <bool precise, class F>
F atan_ratio(F n, F d, Num<typename F::Arithmetic, bool> negated, F base_hi, F base_lo) {
  auto far = d * 0x1.a827999fcef32p-2 < n;  // tan(pi/8)
  F num = select(far, n - d, n), den = select(far, n + d, d);
  F t = num / den;
  F z = t * t;
  F flip = choose(negated, n, -1.0, 1.0);
  // base +- (pi/4 +) (t + tail)
  F quarter_hi = choose(far, n, half_pi_hi / 2, 0.0);
  if constexpr (!precise) {
    F angle = quarter_hi + fma(t * z, polynomial(z, table::atan_brief_f64), t);
    return fma(angle, flip, base_hi);
  } else {
    F low = fma(-t, den, num) / den;
    low = select(abs(low) < 1.0, low, 0.0);
    F tail = fma(t * z, polynomial(z, table::atan_f64), low);
    F quarter_lo = choose(far, n, half_pi_lo / 2, 0.0) * flip;
    Double<F> base = exact_sum(base_hi, quarter_hi * flip);
    Double<F> sum = exact_sum(base.hi, t * flip);
    return sum.hi + (sum.lo + fma(tail, flip, base.lo + (base_lo + quarter_lo)));
  }
}

template <bool precise, class F>
F atan(F x) {
  F a = abs(x), one = x.of(1);
  auto beyond = a > 1.0;
  F n = select(beyond, one, a), d = select(beyond, a, one);
  F y = atan_ratio<precise>(n, d, beyond, choose(beyond, x, half_pi_hi, 0.0),
                            choose(beyond, x, half_pi_lo, 0.0));
  y = select(x == x, y, x);
  return select(a < 0x1p-27, x, copysign(y, x));
}

/// Angle of the point (x, y), in f64.
template <bool precise, class F>
F atan2(F y, F x) {
  F ay = abs(y), ax = abs(x);
  auto steep = ax < ay;
  F n = select(steep, ax, ay), d = select(steep, ay, ax);
  // infinite and null points count as (1, 1) and (0, 1); sums of large ones must not overflow
  auto infinite = n == n.of(Format<double>::infinity);
  n = select(infinite, 1.0, n);
  d = select(infinite, 1.0, d);
  d = select(d == 0.0, 1.0, d);
  if constexpr (precise) {
    F scale = choose(d > 0x1p1000, d, 0x1p-100, 1.0) * choose(d < n.of(0x1p-900), d, 0x1p100, 1.0);
    n = n * scale;
    d = d * scale;
  }
  F negative = copysign(x.of(1), x);
  auto left = negative < 0.0;
  // right: steep ? pi/2 - t : t; left: steep ? pi/2 + t : pi - t
  auto negated = left ^ steep;
  F quarters = choose(steep, x, 1.0, 0.0);
  quarters = select(left, choose(steep, x, 1.0, 2.0), quarters);
  F r = atan_ratio<precise>(n, d, negated, quarters * half_pi_hi, quarters * half_pi_lo);
  F tiny = select(left, r, n / d);
  r = select((n < d * 0x1p-60) & (quarters == 0.0), tiny, r);
  r = copysign(r, y);
  r = select(x == x, r, x);
  return select(y == y, r, y);
}

}  // namespace hologram::atlas::math
