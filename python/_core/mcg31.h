// python/_core/mcg31.h: masks as Intel's MKL draws them, by which PyTorch draws masks on Intel's
// processors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hologram::python {

/// Bytes that are 1 with probability p: viRngBernoulli of the basic generator MCG31m1 (L'Ecuyer
/// 1999: x ← 1132489760 x mod 2^31 - 1), which compares x / (2^31 - 1), rounded to a float, with p,
/// rounded to one.
void mcg31_below(uint32_t seed, double p, uint8_t* out, size_t n);

}  // namespace hologram::python
