// atlas/math/gamma.h: lgamma and digamma, and the roots.
//
// lgamma: steps of 1 to [1.5, 2.5] or Stirling's series; digamma: ten steps up and the asymptotic
// series; both reflect for x < 0.
#pragma once

#include "atlas/math/trig.h"

namespace hologram::atlas::math {

inline constexpr double pi = 0x1.921fb54442d18p+1;

/// |sin(pi r)| for |r| <= 1/2.
template <class F>
F sin_pi(F r) {
  F a = abs(r);
  auto small = a < 0.25;
  F t = select(small, a, a.of(0.5) - a) * pi;
  Double<F> angle{t, t.of(0)};
  return select(small, sin_reduced(angle), cos_reduced(angle));
}

/// For x > 0: by steps of 1 to [1.5, 2.5], or Stirling's series from 8 on.
template <class F>
F lgamma_positive(F x) {
  auto large = x > 8.0;
  F k = at_most(round(x), 9.0) - 2.0;
  F t = select(large, 0.0, (x - 2.0) - k);  // x - k - 2
  F product = x.of(1);
  for (int i = 1; i <= 6; ++i) product = product * select(k >= double(i), x - double(i), 1.0);
  F rise = select(k < x.of(0), x, 1.0) * select(k < x.of(-1), x + 1.0, 1.0);
  F l = log(select(large, x, select(k < x.of(0), rise, product)));
  F near = t * polynomial(t, table::lgamma_f64);
  near = select(k < x.of(0), near - l, near + l);
  F inverse = 1.0 / x;
  F far = fma(x - 0.5, l - 1.0,
              fma(inverse, polynomial(inverse * inverse, table::stirling_f64),
                  0x1.acfe390c97d69p-2));  // (log(2 pi) - 1)/2
  far = select(x < Format<double>::infinity, far, x);
  return select(large, far, near);
}

/// log |gamma(x)|: for x < 0, -log(|sin(pi x)| / pi) - lgamma(1 - x).
template <bool, class F>
F lgamma(F x) {
  auto negative = x < 0.0;
  F y = lgamma_positive(select(negative, x.of(1) - x, x));
  F r = x - round(x);
  F reflected = -(log(sin_pi(r) * (1 / pi)) + y);
  reflected = select(r == 0.0, Format<double>::infinity, reflected);
  y = select(x == 0.0, Format<double>::infinity, select(negative, reflected, y));
  y = select(abs(x) < Format<double>::infinity, y, abs(x));
  // NaN fails every compare above
  return select(x == x, y, x);
}

/// y - 1/u - … - 1/(u + 9); not `precise`: by one division, to about ten units in the last place.
template <bool precise, class F>
F less_ten_reciprocals(F y, F u) {
  if constexpr (precise) {
    F sum = 1.0 / (u + 9.0);
    for (int i = 8; i > 0; --i) sum = sum + 1.0 / (u + double(i));
    return (y - sum) - 1.0 / u;
  } else {
    F product = u, slope = u.of(1);
    for (int i = 1; i < 10; ++i) {
      F next = u + double(i);
      slope = fma(slope, next, product);
      product = product * next;
    }
    return y - slope / product;
  }
}

/// Ten steps up when below 10, then the asymptotic series; for x < 0, digamma(1 - x) - pi / tan(pi
/// x).
template <bool precise, class F>
F digamma(F x) {
  auto negative = x < 0.0;
  F u = select(negative, x.of(1) - x, x);
  auto small = u < 10.0;
  F z = select(small, u + 10.0, u);
  F inverse = 1.0 / z, w = inverse * inverse;
  F y = log(z) - fma(inverse, 0.5, w * polynomial(w, table::digamma_f64));
  y = select(small, less_ten_reciprocals<precise>(y, u), y);
  F r = x - round(x);
  F s = sin_pi(r), c = sin_pi(x.of(0.5) - abs(r));
  F reflected = y - copysign(c / s * pi, r);
  reflected = select(r == 0.0, Format<double>::nan, reflected);
  y = select(negative, reflected, y);
  y = select(u < Format<double>::infinity, y,
             choose(negative, x, Format<double>::nan, Format<double>::infinity));
  y = select(x == 0.0, copysign(x.of(Format<double>::infinity), -x), y);
  return select(x == x, y, x);
}

/// y = 1 / sqrt x as rounded twice, corrected by what 1 - x y^2 is: x y, of the root's exponent, is
/// exact in two pieces. Where x or y is 0 or infinite it has none, and y is right.
template <class F>
F rsqrt(F x) {
  using T = ScalarOf<F>;
  F y = T(1) / sqrt(x);
  Double<F> root = exact_product(x, y);
  F residual = fma(-root.lo, y, fma(-root.hi, y, T(1)));
  F corrected = fma(y * T(0.5), residual, y);
  return select(corrected == corrected, corrected, y);
}

/// m^(-1/3) by polynomial and a step of third order, then x^(1/3) = m (m^(-1/3))^2; `precise`: with
/// a second step and what they round away, for an f64, else for an f32. In f64.
template <bool precise, class F>
F cbrt(F x) {
  F a = abs(x);
  auto tiny = a < Format<double>::min_normal;
  F scaled = precise ? select(tiny, a * 0x1p54, a) : a;
  auto bits = to_bits(scaled);
  F e = small_integer<double>(bits >> 52) - 1023.0;
  F k = floor(fma(e, 1.0 / 3, 0x1p-20));
  F rem = fma(k, -3.0, e);
  F m = from_bits<double>((bits & fraction_mask<double>) | int64_t{0x3ff0000000000000});
  auto one = rem == 1.0, two = rem == 2.0;
  F r = polynomial(m, table::cbrt_f64) *
        select(two, 0x1.428a2f98d728bp-1, choose(one, x, 0x1.965fea53d6e3dp-1, 1.0));
  m = m * select(two, 4.0, choose(one, x, 2.0, 1.0));
  for (int i = 0; i < (precise ? 2 : 1); ++i) {
    F h = fma(-m * r, r * r, 1.0);
    r = fma(r * h, fma(h, 2.0 / 9, 1.0 / 3), r);
  }
  F y = m * r * r, power = k;
  if constexpr (precise) {
    Double<F> square = exact_product(y, y);
    F miss = fma(square.hi, y, -m) + square.lo * y;
    y = fma(miss * (r * r), -1.0 / 3, y);
    power = k + choose(tiny, x, -18.0, 0.0);
  }
  y = y * from_bits<double>((to_bits(power + Format<double>::round_magic) + int64_t{1023}) << 52);
  y = copysign(y, x);
  return select((a > 0.0) & (a < x.of(Format<double>::infinity)), y, x);
}

}  // namespace hologram::atlas::math
