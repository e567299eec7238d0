// backend/cpu/tiles/repair.h: the elements of a product of f32 terms that chains must give.
#pragma once

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// Classes (atlas::Magnitudes) of a unit's columns, and the chains of what they rule out.
class TileRepair : IndexBuilder {
 public:
  TileRepair(CpuFunction& kernel, const TileProduct& plan, Value* n);

  /// Takes `steps` steps of panel number `slot` of the unit into account; `first`: it is the
  /// panel's first block. Afterwards the panel's classes are those of what it has seen.
  void scan(Scope& scope, Value* slot, Value* panel_memory, Value* steps, Value* first);
  /// Replaces what the terms do not give in 32 columns of `count` rows of sums; row r is the
  /// product's row m + r, and its class is row_classes[r].
  void repair(Scope& scope, Value* slot, Value* panel, Value* m, Value* count, Value* row_classes,
              Value* sums);

 private:
  Value* chain(Scope& scope, Value* columns, Value* mask);
  void row(Scope& scope, Value* slot, Value* panel, Value* row_class, Value* sums);

  const atlas::ProductBlock& p_;
  const TileProduct& plan_;
  TileModel t_;
  Value *n_, *part_, *depth_;
  llvm::Type *words_, *floats_;
  Value *least_, *most_, *classes_;  // per panel of a unit: 64 i16, 64 i16, 32 i32
};

}  // namespace hologram::cpu
