// backend/cpu/operands/index_builder.h: index arithmetic of emitters: i64 numbers, batch axes.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/operands/pack.h"

namespace hologram::cpu {

/// What emitters of products, attention and sorts derive from. All numbers are i64; those that are
/// divided are not negative.
class IndexBuilder {
 protected:
  explicit IndexBuilder(CpuFunction& kernel) : k_(kernel) {}

  /// An expression of symbols, computed once.
  Value* number(const Expr& e) { return emit_expr(k_.root(), e).v; }
  Value* mul(Value* a, Value* b) { return k_.ir.CreateNSWMul(a, b); }
  Value* mul(Value* a, int64_t b) { return k_.ir.CreateNSWMul(a, k_.i64(b)); }
  Value* add(Value* a, Value* b) { return k_.ir.CreateNSWAdd(a, b); }
  Value* add(Value* a, int64_t b) { return k_.ir.CreateNSWAdd(a, k_.i64(b)); }
  Value* sub(Value* a, Value* b) { return k_.ir.CreateNSWSub(a, b); }
  Value* div(Value* a, Value* b) { return k_.ir.CreateUDiv(a, b); }
  Value* least(Value* a, Value* b) { return k_.ir.CreateSelect(k_.ir.CreateICmpSLT(a, b), a, b); }
  Value* round_up(Value* a, int64_t to) { return k_.ir.CreateAnd(add(a, to - 1), k_.i64(-to)); }

  /// Fixes the first `rank` axes of `axes` in `scope` to the coordinates of row-major point
  /// `batch`.
  void set_batch_axes(Scope& scope, const std::vector<atlas::Axis>& axes, int rank, Value* batch) {
    for (int axis = rank; axis-- > 0;) {
      Value* extent = number(axes[static_cast<size_t>(axis)].extent);
      scope.seek();
      Value* outer = axis ? div(batch, extent) : k_.i64(0);
      scope.set_axis(axis, axis ? sub(batch, mul(outer, extent)) : batch);
      batch = outer;
    }
  }

  CpuFunction& k_;
};

}  // namespace hologram::cpu
