// interp/operands.h: what product and attention blocks share: operands, chains, results.
#pragma once

#include <cstdint>
#include <vector>

#include "interp/lanes.h"

namespace hologram::interp {

/// An operand's elements for all values of two axes, as bits in `to`, row-major. The coordinates of
/// the first `rank` axes are at lane 0 of `frame`.
std::vector<uint64_t> gather(BodyRunner& body, Frame& frame, size_t rank, size_t axis_a, int64_t a,
                             size_t axis_b, int64_t b, DType from, DType to);

/// out[n] = sum over k of lhs[k] * rhs[k, n]: a chain from 0 per k-block; the first block's sum,
/// then + the others'.
void row_product(DType type, const uint64_t* lhs, const uint64_t* rhs, int64_t columns,
                 int64_t depth, uint64_t* out);

/// out[n] = x * row[n] + out[n], rounded once (f32, f64).
void add_row(DType type, uint64_t x, const uint64_t* row, int64_t columns, uint64_t* out);

/// Runs an epilogue on one row of results, which comes in `parts` (atlas::ProductBlock); the other
/// axes' coordinates are at lane 0 of frame.axes.
void finish_row(BodyRunner& epilogue, Frame& frame, const std::vector<size_t>& fixed, size_t axis,
                const std::vector<uint64_t>& row, int parts = 1);

/// 0, 1, … n - 1.
std::vector<size_t> numbers_to(size_t n);

std::vector<int64_t> batch_extents(const std::vector<atlas::Axis>& axes, size_t rank,
                                   const Frame& frame);

}  // namespace hologram::interp
