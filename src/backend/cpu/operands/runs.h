// backend/cpu/operands/runs.h: operand bodies whose index along an axis is taken apart (windows of
// an image).
#pragma once

#include <optional>
#include <vector>

#include "backend/cpu/operands/pack.h"

namespace hologram::cpu {

/// One level of a split axis: `axis` counts `extent` steps of `stride`.
struct Level {
  int axis;
  int64_t extent, stride;
};

/// A body in which an axis is replaced by the sum of its levels, outermost first.
struct SplitBody {
  atlas::Body body;
  std::vector<Level> levels;
};

/// Splits `axis` wherever the body takes quotients and remainders of it, so that the body runs
/// along the innermost level without divisions: k = (row, column, channel) for a convolution. New
/// axes are numbered from `next_axis` on. nullopt where there is nothing to split, or sizes are not
/// known.
std::optional<SplitBody> split_axis(const atlas::Body& body, int axis, const Expr& extent,
                                    int next_axis);

/// A body in which `axis` is replaced by lanes * (axis next_axis) + axis next_axis + 1, if it takes
/// quotients and remainders of the axis by multiples of `lanes` alone: then a vector of lanes that
/// begins at a multiple of their number meets one of each. nullopt otherwise.
std::optional<atlas::Body> block_axis(const atlas::Body& body, int axis, const Expr& extent,
                                      int lanes, int next_axis);

/// out[k] = the operand's element at k for all k of the split axis; out has room for a vector more.
void gather_runs(Scope& scope, const SplitBody& split, DType from, DType to, int lanes, Value* out);

/// The same for [begin, begin + count) of the split axis, a part of it that is not empty: out[0] is
/// the element at `begin`.
void gather_part(Scope& scope, const SplitBody& split, DType from, DType to, int lanes,
                 Value* begin, Value* count, Value* out);

}  // namespace hologram::cpu
