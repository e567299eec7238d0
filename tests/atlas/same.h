// tests/atlas/same.h: whether two numbers are the same bits, or both NaN
#pragma once

#include <cmath>
#include <cstdint>

#include "ir/scalar.h"

namespace hologram::test {

inline bool same(DType type, uint64_t x, uint64_t y) {
  if (is_float(type) && std::isnan(ir::as_double(type, x))) return std::isnan(ir::as_double(type, y));
  return x == y;
}

}  // namespace hologram::test
