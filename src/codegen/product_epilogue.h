// codegen/product_epilogue.h: the epilogue of a product on a block of its sums.
#pragma once

#include "codegen/numbers.h"
#include "codegen/product_plan.h"

namespace hologram::codegen {

/// Runs a product's epilogue body on sums in memory, vectors along the columns.
class ProductEpilogue : Numbers {
 public:
  /// `n`: the product's columns, constant where they are known.
  ProductEpilogue(Kernel& kernel, const TileModel& tile, Value* n);

  /// Rows [m, m + count) and `width` panels from panel `panel` on; sums[r * width * tile.panel +
  /// c].
  void emit(Scope& scope, Value* sums, Value* m, Value* count, Value* panel, Value* width);

 private:
  const atlas::ProductBlock& p_;
  TileModel t_;
  Value* n_;
};

}  // namespace hologram::codegen
