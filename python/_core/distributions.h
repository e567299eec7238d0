// python/_core/distributions.h: numbers of a distribution made of a generator's words, as PyTorch's
// kernels for the CPU do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace hologram::python {

/// What a distribution is told; which of them it reads says make_of().
struct Parameters {
  double a = 0, b = 0;
  uint64_t modulus = 0;
  int64_t base = 0;
};

/// How units of `elements` numbers are made of `words` words each, every unit for itself.
struct Maker {
  size_t words = 1, elements = 1;
  bool slow = false;  ///< several threads are worth while
  void (*make)(const Parameters&, const uint32_t* words, void* out, size_t units) = nullptr;
};

/// The maker of `kind` for elements of a type:
/// - "uniform": from a to less than b,
/// - "chances": 1 with the probability that stands in the element's place, else 0,
/// - "normal": in blocks of 16, with mean a and deviation b,
/// - "pairs", "log_normal": normal numbers, or e to their power, two at a time,
/// - "cauchy": with median a and scale b, "exponential": of rate a,
/// - "geometric": of probability a,
/// - "integers", "long_integers": a number of 32 or 64 bits modulo `modulus` (0: as it is), and
///   `base`.
/// Throws Error(invalid_argument) for another kind or a type that it is not for.
Maker maker_of(std::string_view kind, DType dtype);

/// One number of "pairs" (or of "log_normal") as an element.
void put_normal(double sample, const Parameters&, bool log, DType dtype, void* out);

/// A number of 53 bits from 0 to less than 1, of two words, the first the high half.
double unit_number(const uint32_t* words);

}  // namespace hologram::python
