// backend/cuda/products/tensor_tile.h: a tile of results on tensor cores: who multiplies what, and
// the way of the sums to the epilogue.
#pragma once

#include "backend/cuda/matrices.h"
#include "backend/cuda/products/tile.h"

namespace hologram::cuda {

/// A tile whose sums the warps of a CTA keep as mma.m16n8k16 leaves them.
class TensorTile : public ProductTile {
 public:
  struct Shape {
    int rows, columns;  ///< of the tile
    int down, across;   ///< warps
    int step;           ///< values of k in shared memory at a time
    int unit, ctas;     ///< as Tiling has them
    bool mends = false;

    constexpr int warp_rows() const { return rows / down; }
    constexpr int warp_columns() const { return columns / across; }
    constexpr int row_tiles() const { return warp_rows() / 16; }
    constexpr int column_tiles() const { return warp_columns() / 8; }
    Tiling tiling() const { return {rows, columns, threads(), unit, ctas, mends}; }
    constexpr int threads() const { return 32 * down * across; }
    constexpr int sums() const { return row_tiles() * column_tiles() * 4; }  ///< of a lane
    /// Rows of a factor in shared memory, in elements: eight of them lie in different banks.
    constexpr int stride(int count, bool depth_run) const { return (depth_run ? step : count) + 8; }
    /// Elements of `count` rows or columns of a factor.
    constexpr int elements(int count) const {
      return std::max(count * stride(count, true), step * stride(count, false));
    }
    /// Rows of sums that the epilogue gets at a time, 16 of each warp, and their stride.
    constexpr int slice() const { return 16 * down; }
    constexpr int slice_stride() const { return columns + 4; }
  };

  TensorTile(CudaFunction& k, const Shape& shape);

  const Shape& shape() const { return shape_; }
  int left_stride() const { return shape_.stride(shape_.rows, left().depth_run); }
  int right_stride() const { return shape_.stride(shape_.columns, right().depth_run); }

  /// Registers of mma for each 16 rows (8 columns) of the warp, for 16 values of k from `k` on. The
  /// factor is at element `base` (i32) of `memory`. The builder stands where the whole warp is. Two
  /// bytes are an element.
  using Registers = std::vector<std::vector<Value*>>;
  Registers load_left(Value* memory, Value* base, int k);
  Registers load_right(Value* memory, Value* base, int k);
  void multiply(DType type, const Registers& left, const Registers& right, Value** sums);

  /// Runs the epilogue on all sums, which go through `memory`.
  void finish_sums(const std::vector<Value*>& sums, Value* memory);

 private:
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  Shape shape_;
  Value *lane_, *row_, *column_;  // the warp's part of the tile, i32
};

}  // namespace hologram::cuda
