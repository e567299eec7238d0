// backend/cuda/products/tile.h: the part of a product that a CTA computes, and the bodies around
// its sums.
#pragma once

#include "backend/cuda/operands.h"
#include "gpu/products.h"

namespace hologram::cuda {

using gpu::Tiling;  // of CTAs

/// A CTA's tile of rows x columns sums.
class ProductTile : public Operands {
 public:
  /// Emits which tile the CTA's is, and which part of it; `merging`: of the kernel that merges
  /// parts.
  ProductTile(CudaFunction& k, const Tiling& tiling, bool merging = false);

  /// eight() then goes along k, which both factors lie along, also where one of them lies along its
  /// rows as well, as a single row or windows of a line do.
  void read_along_depth() { left_.depth_run = right_.depth_run = true; }

  Scope& scope() { return scope_; }  ///< of all that the CTA does
  const Factor& left() const { return left_; }
  const Factor& right() const { return right_; }
  Value* depth() const { return left_.depth; }  ///< how many k there are, i64
  /// The CTA's values of k, i64; there may be none.
  Value* begin() const { return begin_; }
  Value* end() const { return end_; }

  /// Runs the epilogue on `rows` rows of the tile's sums, which are in shared memory behind a
  /// barrier: element (row, column) at row * stride + column. `row_of`: which row of the tile it
  /// is. Of a part, sums are left in the workspace instead.
  void finish(Value* sums, int stride, int rows, const std::function<Value*(Value*)>& row_of);
  /// The same for element (row, column) of the tile (i32), if `has` it (i1), with its sum.
  void finish_element(Scope& at, Value* row, Value* column, Value* has,
                      const std::function<Value*()>& sum);
  /// Adds up the parts of the CTA's share of a tile, and runs the epilogue.
  void merge();

 private:
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* wide(Value* n) { return ir_.CreateZExt(n, ir_.getInt64Ty()); }
  Value* exists(Value* row, Value* column);
  void run_epilogue(Scope& point, Value* row, Value* column, Value* sum);
  Value* place_in_part(Value* team, Value* row, Value* column);

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::ProductBlock& block_;
  Tiling tiling_;
  Scope scope_;
  Factor left_, right_;
  Value *thread_, *tile_;   // number of the tile, i64
  Value *begin_, *end_;     // of k
  Value* share_ = nullptr;  // of the CTA in merging its tile, i32
  Value* alone_ = nullptr;  // whether the CTA has all of k, where it may be cut
};

/// A kernel of a product, and the one that merges its parts.
struct TileNames {
  const char *kernel = kernel_symbol, *merge = merge_symbol;
};

/// Adds the kernel that merges parts.
void add_merge(Facts& facts, llvm::Module& module, const atlas::Program& program,
               const Tiling& tiling, const char* name = merge_symbol);

/// The kernel of a program's product, and the one that merges parts; `fill` writes what a CTA does.
Facts emit_tiles(llvm::Module& module, const atlas::Program& program, const Tiling& tiling,
                 const std::function<void(CudaFunction&)>& fill, const TileNames& names = {});

}  // namespace hologram::cuda
