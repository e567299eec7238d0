// tests/support/functions.h: the elementary functions in double, to compare with.
#pragma once

#include <cmath>

#include "ir/op.h"

namespace hologram::test {

using ir::Op;

inline double digamma(double x) {
  if (x == 0) return std::copysign(INFINITY, -x);
  if (x < 0) {
    double r = x - std::nearbyint(x);
    if (r == 0) return NAN;
    return digamma(1 - x) - M_PI / std::tan(M_PI * r);
  }
  if (std::isinf(x)) return x;
  long double sum = 0, z = x;
  while (z < 20) {
    sum -= 1 / z;
    z += 1;
  }
  long double w = 1 / (z * z);
  long double series =
      w * (1.0L / 12 - w * (1.0L / 120 - w * (1.0L / 252 - w * (1.0L / 240 - w * (1.0L / 132 - w * (691.0L / 32760 - w / 12))))));
  return static_cast<double>(sum + std::log(z) - 0.5L / z - series);
}

inline double erfinv(double x) {
  double a = std::fabs(x);
  if (!(a <= 1)) return NAN;
  if (a == 1) return std::copysign(INFINITY, x);
  if (a < 1e-9) return x * 0.88622692545275801365;
  double w = -std::log1p(-a * a), y;
  y = std::sqrt(w) * 0.8;
  for (int i = 0; i < 60; ++i) {
    long double miss =
        a < 0.5 ? static_cast<long double>(std::erf(static_cast<long double>(y))) - a : (1.0L - a) - std::erfc(static_cast<long double>(y));
    long double u = miss * 0.88622692545275801365L * std::exp(static_cast<long double>(y) * y);
    double next = static_cast<double>(y - u / (1 + u * y));
    if (next == y) break;
    y = next;
  }
  return std::copysign(y, x);
}

inline double gelu(double x) {
  if (std::isinf(x)) return x < 0 ? NAN : x;
  if (x > 0) return x - x * (0.5 * std::erfc(x * M_SQRT1_2));
  // erfc of the rounded argument, corrected to first order
  double s = -x * M_SQRT1_2;
  double low = std::fma(-x, M_SQRT1_2, -s) - x * -4.833646656726457e-17;
  double e = std::erfc(s) - low * M_2_SQRTPI * std::exp(-s * s);
  return x * (0.5 * e);
}

inline constexpr double pi = M_PI;

inline double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

/// In double, well below half a unit of float: glibc's functions and series of our own. NaN for an operation that is none of them.
inline double reference(Op op, double x, [[maybe_unused]] double y = 0) {
  using namespace std;
  using test::lgamma;
  switch (op) {
#define HOLOGRAM_REFERENCE(name, low, high, floor, expression) \
  case Op::name:                                               \
    return expression;
#include "support/functions.def"
    default:
      return NAN;
  }
}

}  // namespace hologram::test
