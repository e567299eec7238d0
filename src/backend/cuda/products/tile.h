// backend/cuda/products/tile.h: the part of a product that a CTA computes, and the bodies around
// its sums.
#pragma once

#include <functional>

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

/// Whether neighbours along the axis are neighbours in memory for the first load that depends on
/// it.
bool lies_along(const atlas::Body& body, int axis);

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

  static constexpr int lanes = 8;  ///< elements of a piece

  /// Eight elements of a factor from (x, k) on, along k if it has its neighbours there, else along
  /// x, as i16; 0 behind the last k, others' values behind the last x.
  Value* eight(Scope& at, const Factor& factor, Value* x, Value* k);

  /// Eight elements of a factor beside each other along k, or along x.
  struct Piece {
    Value* value;  ///< a vector of i16
    Value* place;  ///< its first element's number in shared memory, i32
  };
  /// The thread's pieces of elements [first, first + count) x [k, k + depth) of a factor of 16-bit
  /// numbers, 0 behind the last k, for [x][k] or [k][x] in shared memory by rows of `stride`.
  std::vector<Piece> fetch(Scope& at, const Factor& factor, Value* k, int count, int depth,
                           int stride);

  /// Runs the epilogue on `rows` rows of the tile's sums, which are in shared memory behind a
  /// barrier: element (row, column) at row * stride + column. `row_of`: which row of the tile it
  /// is.
  void finish(Value* sums, int stride, int rows, const std::function<Value*(Value*)>& row_of);

 private:
  Value* one_by_one(Scope& at, const Factor& factor, Value* x, Value* k);
  Value* within(Value* v, Value* count);
  Value* element(Scope& at, const Factor& factor, Value* x, Value* k, Value* inside);

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::ProductBlock& block_;
  int columns_, threads_;
  Scope scope_;
  Factor left_, right_;
  Value *depth_, *thread_;
};

}  // namespace hologram::cuda
