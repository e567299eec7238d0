// backend/cuda/products/tile.h: the part of a product that a CTA computes, and the bodies around
// its sums.
#pragma once

#include "backend/cuda/operands.h"

namespace hologram::cuda {

/// A CTA's tile of rows x columns sums.
class ProductTile : public Operands {
 public:
  /// `threads` of a CTA. Emits which tile the CTA's is.
  ProductTile(CudaFunction& k, int rows, int columns, int threads);

  /// CTAs that a program's product takes, by tiles of rows x columns.
  static Expr tiles(const atlas::ProductBlock& block, int rows, int columns);

  Scope& scope() { return scope_; }  ///< of all that the CTA does
  const Factor& left() const { return left_; }
  const Factor& right() const { return right_; }
  Value* depth() const { return left_.depth; }  ///< how many k there are, i64

  /// Replaces the sum of an element whose axes are fixed in the scope, at whose end it leaves the
  /// builder.
  using Mend = std::function<Value*(Scope&, Value*)>;
  /// Runs the epilogue on `rows` rows of the tile's sums, which are in shared memory behind a
  /// barrier: element (row, column) at row * stride + column. `row_of`: which row of the tile it
  /// is.
  void finish(Value* sums, int stride, int rows, const std::function<Value*(Value*)>& row_of,
              const Mend& mend = nullptr);

 private:
  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::ProductBlock& block_;
  int columns_, threads_;
  Scope scope_;
  Factor left_, right_;
  Value* thread_;
};

/// The kernel of a program's product by tiles of rows x columns, a CTA of `threads` threads for
/// each; `fill` writes what one does.
Facts emit_tiles(llvm::Module& module, const atlas::Program& program, int threads, int rows,
                 int columns, const std::function<void(CudaFunction&)>& fill);

}  // namespace hologram::cuda
