// backend/cuda/products/tile.h: the part of a product that a CTA computes, and the bodies around
// its sums.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// One of a product's factors: its elements are (x, k), x a row of the left one, a column of the
/// right one.
struct Factor {
  const atlas::Body* body;
  int axis;        ///< of x
  DType type;      ///< of the body's value
  Value* first;    ///< x of the tile's first element, i64
  Value* count;    ///< how many x there are, i64
  bool depth_run;  ///< neighbours in memory are neighbours along k, as far as is known
};

/// A CTA's tile of rows x columns sums.
class ProductTile {
 public:
  /// `threads` of a CTA. Emits which tile the CTA's is.
  ProductTile(CudaFunction& k, int rows, int columns, int threads);

  /// CTAs that a program's product takes, by tiles of rows x columns.
  static Expr tiles(const atlas::ProductBlock& block, int rows, int columns);

  Scope& scope() { return scope_; }  ///< of all that the CTA does
  const Factor& left() const { return left_; }
  const Factor& right() const { return right_; }
  Value* depth() const { return depth_; }  ///< how many k there are, i64
  void barrier();

  /// Writes elements [first, first + count) x [k, k + depth) of a factor, as `type`, to
  /// `to`[k][x], whose rows are `stride` elements apart. Where there are none, `fill`.
  void stage(Scope& at, const Factor& factor, Value* k, int count, int depth, DType type,
             llvm::Constant* fill, Value* to, int stride);

  /// Runs the epilogue on the tile's sums, which are in shared memory behind a barrier: element
  /// (row, column) at row * stride + column.
  void finish(Value* sums, int stride);

 private:
  void emit_element(Scope& at, const Factor& factor, Value* x, Value* k, Value* inside, DType type,
                    llvm::Constant* fill, Value* place);

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::ProductBlock& block_;
  int rows_, columns_, threads_;
  Scope scope_;
  Factor left_, right_;
  Value *depth_, *thread_;
};

}  // namespace hologram::cuda
