// tests/math/ulp.h: errors in units in the last place.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace hologram::atlas::math {

/// The spacing of floats of type T around a real number v.
template <class T, class R>
R ulp_of(R v) {
  int e = 0;
  std::frexp(static_cast<double>(v), &e);
  int least = std::numeric_limits<T>::min_exponent;
  e = e < least ? least : e;
  return std::ldexp(R(1), e - std::numeric_limits<T>::digits);
}

/// Error of `got` in units in the last place of the exact value `want`; infinity where a NaN, an infinity or the sign of a zero is wrong.
template <class T, class R>
double ulp_error(T got, R want) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(want)) return std::isnan(got) ? 0 : wrong;
  if (std::isnan(got)) return wrong;
  T rounded = static_cast<T>(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // the largest finite number for an overflow by rounding, or the other way round, counts as an error of the size it has
    if (std::isinf(want) || std::signbit(got) != std::signbit(rounded)) return wrong;
    R top = std::ldexp(R(1), std::numeric_limits<T>::max_exponent);
    R value = std::isinf(got) ? (std::signbit(got) ? -top : top) : R(got);
    return static_cast<double>(std::fabs(value - want) / ulp_of<T, R>(R(std::numeric_limits<T>::max())));
  }
  if (want == 0) return got == 0 && std::signbit(got) == std::signbit(want) ? 0 : wrong;
  if (got == 0 && std::signbit(got) != std::signbit(want)) return wrong;
  return static_cast<double>(std::fabs(R(got) - want) / ulp_of<T, R>(want));
}

}  // namespace hologram::atlas::math
