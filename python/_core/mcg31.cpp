// python/_core/mcg31.cpp: the multiplicative congruential generator MCG31m1, many numbers at a
// time.
#include "mcg31.h"

#include <algorithm>

#include "base/for_each_isa.h"

namespace hologram::python {
namespace {

constexpr uint64_t modulus = (uint64_t{1} << 31) - 1, factor = 1132489760;
constexpr size_t width = 8;
using Longs = uint64_t __attribute__((vector_size(64), aligned(8)));
using Flags = uint8_t __attribute__((vector_size(8), aligned(1), may_alias));

// The remainder of a product, which is less than 2^62. x may be a vector.
template <typename T>
HOLOGRAM_INLINE T times(T x, uint64_t by) {
  const T product = x * by;
  const T folded = (product & modulus) + (product >> 31) + 1;  // at most 2^32 - 1
  return (folded & modulus) + (folded >> 31) - 1;
}

/// The least number that is not below p.
uint64_t bound_of(double p) {
  uint64_t low = 0, high = modulus;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    const auto u = static_cast<float>(static_cast<double>(middle) / static_cast<double>(modulus));
    if (u < static_cast<float>(p))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

HOLOGRAM_FOR_EACH_ISA void below(uint64_t x, uint64_t bound, uint8_t* out, size_t n) {
  Longs first, second;
  uint64_t step = 1;
  for (size_t k = 0; k < 2 * width; ++k) {
    (k < width ? first : second)[k % width] = x;
    x = times(x, factor);
    step = times(step, factor);
  }
  size_t i = 0;
  for (; i + 2 * width <= n; i += 2 * width) {
    *reinterpret_cast<Flags*>(out + i) = __builtin_convertvector((first - bound) >> 63, Flags);
    *reinterpret_cast<Flags*>(out + i + width) =
        __builtin_convertvector((second - bound) >> 63, Flags);
    first = times(first, step);
    second = times(second, step);
  }
  for (size_t k = 0; i < n; ++i, ++k) out[i] = (k < width ? first : second)[k % width] < bound;
}

}  // namespace

void mcg31_below(uint32_t seed, double p, uint8_t* out, size_t n) {
  below(std::max<uint64_t>(seed % modulus, 1), bound_of(p), out, n);
}

}  // namespace hologram::python
