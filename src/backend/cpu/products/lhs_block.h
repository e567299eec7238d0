// backend/cpu/products/lhs_block.h: the left operand of a product's units, in place or copied.
#pragma once

#include <optional>

#include "backend/cpu/operands/runs.h"
#include "backend/cpu/products/groups.h"

namespace hologram::cpu {

/// Steps [begin, begin + count) of a product.
struct StepRange {
  Value *begin, *count;
};

/// A unit's rows of the left operand as register tiles read them.
struct LhsRows {
  Value *base, *row_stride, *k_stride;
};

/// Brings a unit's rows into memory unless they are read where they lie; consecutive units of the
/// same rows on one thread share the copy.
class LhsBlock : IndexBuilder {
 public:
  /// `depth`: most steps that the copy holds.
  LhsBlock(CpuFunction& kernel, const ProductPlan& plan, Value* depth);

  /// Elements that the copy takes.
  Value* size() const { return size_; }
  /// `scratch`: room for the copy; `groups`: null unless the plan has dot instructions.
  void place(Value* scratch, GroupPacker* groups);
  /// Rows [begin, begin + rows) of the batch point that `scope` fixes, in those steps; `number`
  /// tells them from all others.
  LhsRows emit(Scope& scope, Value* number, Value* begin, Value* rows, const StepRange& steps);

 private:
  void copy(Scope& scope, Value* begin, Value* rows, const StepRange& steps);

  const atlas::ProductBlock& p_;
  const ProductPlan& plan_;
  DType type_;
  int m_axis_, k_axis_;
  Value* size_;
  Value* stride_ = nullptr;        // of the copy: of rows, or of steps where these lie together
  Value* square_ = nullptr;        // in which a part of the copy is turned over
  std::optional<SplitBody> runs_;  // where the axis that is copied along lies in several runs
  // Set by place():
  Value* scratch_ = nullptr;
  GroupPacker* groups_ = nullptr;
  Value* copied_ = nullptr;    // which rows are in the copy
  Value* in_place_ = nullptr;  // the stride of rows where they are read in place
};

}  // namespace hologram::cpu
