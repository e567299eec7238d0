// backend/cpu/operands/dots.h: inner products of contiguous rows, with lanes along the summed axis.
#pragma once

#include <vector>

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// Partial sums of one inner product and of a row's sum: term j belongs to partial j mod this, on
/// every instruction set. A tree adds them: j and j + half, for half the number, a quarter, ….
inline int partials_of(DType type) { return 64 / size_of(type); }

/// The sums of `partials` (vectors of `lanes` elements that hold partials_of(type) of them) by the
/// tree, as a scalar.
Value* sum_partials(CpuFunction& k, std::vector<Value*> partials, int lanes);

/// sums + the products of the pairs of bfloat16 in x and y; where Target::bf16_dots.
Value* dot_bf16(CpuFunction& k, Value* sums, Value* x, Value* y);

/// Inner products of one row with `lanes` others.
struct RowDots {
  int lanes;      ///< rows at once, a vector of `type`
  int registers;  ///< accumulators to keep at once
  DType type;     ///< of the sums and of x
  DType storage;  ///< of the rows in memory
  int64_t depth;  ///< a multiple of partials_of(type)
  /// bfloat16 rows by dots of bfloat16, of pairs: x holds such numbers too, and depth is a multiple
  /// of twice as many.
  bool pairs = false;

  /// A vector whose lane l is x · rows[l].
  Value* emit(Scope& scope, Value* x, const std::vector<Value*>& rows) const;
};

}  // namespace hologram::cpu
