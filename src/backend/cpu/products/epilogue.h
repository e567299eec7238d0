// backend/cpu/products/epilogue.h: the epilogue of a product on a block of its sums.
#pragma once

#include <optional>

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// Runs a product's epilogue body on sums in memory: vectors along the columns, or along the rows
/// where these lie side by side in what is stored (an image whose channels are planes).
class ProductEpilogue : IndexBuilder {
 public:
  /// `n`: the product's columns (of one part), constant where they are known.
  ProductEpilogue(CpuFunction& kernel, const TileModel& tile, Value* n);

  /// Rows [m, m + count) and `width` panels from panel `panel` on; sums[r * width * tile.panel +
  /// c].
  void emit(Scope& scope, Value* sums, Value* m, Value* count, Value* panel, Value* width);
  /// The same of all parts of rows [m, m + count) and the columns of number `block` of each part's
  /// panels: sums[r * stride + p * between + c].
  void emit_parts(Scope& scope, Value* sums, Value* stride, Value* between, Value* m, Value* count,
                  Value* block);
  /// Brings what the epilogue of rows [m, m + count) and columns [column, column + columns) will
  /// read along columns to the second-level cache: a tile's rows are pieces that lie apart, which
  /// nothing else fetches ahead.
  void fetch(Scope& scope, Value* m, Value* count, Value* column, Value* columns);

 private:
  // The epilogue's body for vectors of rows. Rows m = run * (axis outer) + axis rows where `run` is
  // not 0: a vector must not reach into the next run.
  struct ByRows {
    atlas::Body body;
    int64_t run = 0;
    int outer = -1, rows = -1;
  };
  // How many rows and columns of sums from where on.
  struct Block {
    Value *sums, *stride, *m, *rows, *n, *columns, *between = nullptr;
  };

  std::optional<ByRows> by_rows() const;
  void emit_columns(Scope& scope, const Block& block);
  void emit_rows(Scope& scope, const Block& block);
  void turn_square(Scope& scope, const Block& block, Value* row, Value* column);

  const atlas::ProductBlock& p_;
  TileModel t_;
  Value* n_;
  int n_axis_;
  std::optional<ByRows> by_rows_;
  Value* square_ = nullptr;
};

}  // namespace hologram::cpu
