// backend/cuda/operands.h: operands of products and of attention, read by the threads of a CTA.
#pragma once

#include <functional>

#include "backend/cuda/function.h"
#include "gpu/operands.h"

namespace hologram::cuda {

using gpu::lies_along;
using gpu::runs_along;

/// One of a product's factors: its elements are (x, k), x a row of the left one, a column of the
/// right one.
struct Factor {
  const atlas::Body* body;
  int axis;        ///< of x
  int depth_axis;  ///< of k
  DType type;      ///< of the body's value
  Value* first;    ///< x of the tile's first element, i64
  Value* count;    ///< how many x there are, i64
  Value* depth;    ///< how many k there are, i64
  bool depth_run;  ///< neighbours in memory are neighbours along k, as far as is known
  /// Fixes the axes that x stands for, where `axis` alone is not enough: then depth_run holds.
  std::function<void(Scope&, Value*)> place = nullptr;
};

/// What `threads` threads of a CTA read together.
class Operands {
 public:
  Operands(CudaFunction& k, int threads) : k_(k), ir_(k.ir), threads_(threads) {}

  /// Writes elements [first, first + count) x [k, k + depth) of a factor, as `type`, to
  /// `to`[k][x], whose rows are `stride` elements apart. Where there are none, `fill`.
  void stage(Scope& at, const Factor& factor, Value* k, int count, int depth, DType type,
             llvm::Constant* fill, Value* to, int stride);

  static constexpr int lanes = 8;  ///< elements of a piece

  /// Eight elements of a factor from (x, k) on, along k if it has its neighbours there, else along
  /// x; 0 behind the last k, others' values behind the last x.
  Value* eight(Scope& at, const Factor& factor, Value* x, Value* k);

  /// Eight elements of a factor beside each other along k, or along x.
  struct Piece {
    Value* value;             ///< a vector of the factor's type, 16-bit floats as i16
    Value* place;             ///< its first element's number in shared memory, i32
    Value* exists = nullptr;  ///< where some threads have none
  };
  /// The thread's pieces of elements [first, first + count) x [k, k + depth) of a factor, 0 behind
  /// the last k, for [x][k] or [k][x] in shared memory by rows of `stride`.
  std::vector<Piece> fetch(Scope& at, const Factor& factor, Value* k, int count, int depth,
                           int stride);
  /// Where the thread's piece number `n` of those goes.
  Value* place_of(const Factor& factor, int n, int count, int depth, int stride);
  /// Puts pieces of numbers of 8 or 16 bits to `memory`, from element `offset` (i32) + `first` on.
  void write(Scope& at, const std::vector<Piece>& pieces, Value* memory, Value* offset,
             int first = 0);

  void barrier();

 private:
  void fix(Scope& scope, const Factor& factor, Value* x);
  Value* one_by_one(Scope& at, const Factor& factor, Value* x, Value* k);
  Value* within(Value* v, Value* count);
  // Row and element of the row where piece `e` of a tile begins.
  std::pair<Value*, Value*> split_piece(const Factor& factor, Value* e, int count, int depth);
  Value* element(Scope& at, const Factor& factor, Value* x, Value* k, Value* inside);
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  int threads_;
};

}  // namespace hologram::cuda
