// interp/tiles.h: products of sums of bfloat16 terms (atlas/tile_math.h).
#pragma once

#include <cstdint>
#include <vector>

namespace hologram::interp {

/// A matrix [rows, columns] as terms: one plane per term.
struct TermPlanes {
  std::vector<std::vector<uint16_t>> planes;
  int64_t columns;
};

/// The terms of a matrix of f32 bits.
TermPlanes split_terms(const std::vector<uint64_t>& bits, int64_t columns, int terms);

/// One row of the product: out[n] as f32 bits. `x` has the depth as columns, y the result's.
/// `chain` (f32 bits, may be null): what replaces elements that the terms cannot give.
void tile_row(const TermPlanes& x, int64_t row, const TermPlanes& y, const uint64_t* chain,
              uint64_t* out);

}  // namespace hologram::interp
