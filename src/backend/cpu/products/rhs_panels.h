// backend/cpu/products/rhs_panels.h: panels of a product's right operand, packed, in place or
// copied.
#pragma once

#include <optional>

#include "backend/cpu/operands/pack.h"
#include "backend/cpu/products/groups.h"
#include "backend/cpu/products/lhs_block.h"

namespace hologram::cpu {

/// Panels as register tiles read them.
struct Panels {
  Value *base, *k_stride, *panel_stride;
};

/// The right operand of one batch point.
struct RhsPoint {
  Value* first_panel;       ///< of the point, among all that are packed
  Value* origin = nullptr;  ///< the operand's first element, where it is a plain load
};

class RhsPanels : IndexBuilder {
 public:
  /// `part`: columns of a part; `depth`: most steps of panels that are copied.
  RhsPanels(CpuFunction& kernel, const ProductPlan& plan, Value* part, Value* depth);

  /// Most panels that are copied side by side.
  int widest() const { return std::max(plan_.parts, plan_.panels_for(1)); }
  /// `scratch`: room for the widest, null where none are copied; `square`: that of lanes times
  /// lanes elements, where they are transposed; `groups`: null unless the plan has dot
  /// instructions.
  void place(Value* scratch, Value* square, GroupPacker* groups);
  /// In `scope` the axes of the batch are fixed.
  RhsPoint point(Scope& scope, Value* first_panel);
  /// Panels [panel, panel + width) in those steps.
  Panels emit(Scope& scope, const RhsPoint& point, Value* panel, Value* width,
              const StepRange& steps);

 private:
  bool all_whole() const;
  Operand operand() const;
  Value* first_column(Value* panel);
  Value* columns_left(Value* n_begin);
  Panels direct(Scope& scope, const RhsPoint& point, Value* panel, Value* width,
                const StepRange& steps);
  void copy(Scope& scope, Value* n_begin, const StepRange& steps, Value* out);
  void transpose(Scope& scope, Value* n_begin, const StepRange& steps, Value* out);

  const atlas::ProductBlock& p_;
  const ProductPlan& plan_;
  const TileModel& t_;
  DType type_;
  int n_axis_, k_axis_;
  Value *part_, *depth_;
  std::optional<atlas::Body> blocks_;  // the operand's body with its columns in blocks
  // Set by place():
  Value *scratch_ = nullptr, *square_ = nullptr;
  GroupPacker* groups_ = nullptr;
  Value* row_ = nullptr;  // the stride of k where panels are read in place
};

}  // namespace hologram::cpu
