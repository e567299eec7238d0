// backend/cuda/attention/square.h: 16 x 16 threads that multiply from shared memory.
#pragma once

#include "backend/cuda/operands.h"

namespace hologram::cuda {

/// The threads of a CTA over a tile: each has `own` rows beside each other, and of the columns
/// vectors of up to four.
class Square {
 public:
  using Values = std::vector<Value*>;
  static constexpr int side = 16, threads = side * side;
  static constexpr int pad = 4;  ///< elements between rows in shared memory, which stay aligned

  Square(CudaFunction& k, Operands& operands, DType type, int rows);

  int own() const { return own_; }  ///< rows of a thread
  /// How many columns of `columns` a thread has.
  static int columns_each(int columns) { return columns / side; }
  Value* down() const { return down_; }      ///< the thread's first row, i32
  Value* across() const { return across_; }  ///< its number along the columns, i32
  /// Where the thread's column number `n` of `columns` is, i32.
  Value* column(int n, int columns);

  Value* at(Value* memory, Value* n) { return ir_.CreateGEP(type_, memory, n); }
  Values load(Value* memory, Value* first, int count);
  void store(const Values& values, Value* memory, Value* first);
  /// The thread's columns of row `row` of `memory`, whose rows are `stride` apart.
  Values row_of(Value* memory, Value* row, int stride, int columns);
  void put_row(std::span<Value* const> values, Value* memory, Value* row, int stride, int columns);

  /// Elements of shared memory that products() of so many columns take.
  int factors(int columns) const { return step() * (rows_ + columns + 2 * pad); }
  /// Values of k that go to shared memory at a time.
  int step() const { return type_->isDoubleTy() ? 8 : 16; }
  /// The thread's sums of products of `left`'s rows and `right`'s columns, by rows, as
  /// atlas/blocks/product.h has them. `depth` is the factors'.
  Values products(Scope& at, const Factor& left, const Factor& right, const Expr& depth,
                  int columns, Value* memory);

 private:
  struct Vectors {
    int width, count;
  };
  static Vectors vectors(int columns);
  Value* first_column(const Vectors& v, int n);
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  llvm::Align alignment(int count) const;
  void multiply(Values& chains, Value* memory, Value* right, int columns);

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  Operands& operands_;
  DType dtype_;
  llvm::Type* type_;
  int rows_, own_;
  Value *across_, *down_;
};

}  // namespace hologram::cuda
