// backend/cuda/attention/square.cpp: rows, columns and chains of 16 x 16 threads.
#include "backend/cuda/attention/square.h"

#include <algorithm>

#include "atlas/order.h"
#include "codegen/nest.h"

namespace hologram::cuda {

// The builder stands where all of the threads are.
Square::Square(CudaFunction& k, Operands& operands, DType type, int rows)
    : k_(k),
      ir_(k.ir),
      operands_(operands),
      dtype_(type),
      type_(k.type_of(type)),
      rows_(rows),
      own_(rows / side),
      across_(ir_.CreateAnd(k.thread(), side - 1)),
      down_(ir_.CreateMul(ir_.CreateLShr(k.thread(), 4), number(own_))) {}

Square::Vectors Square::vectors(int columns) {
  const int width = std::min(4, columns_each(columns));
  return {width, columns_each(columns) / width};
}

Value* Square::first_column(const Vectors& v, int n) {
  return ir_.CreateAdd(ir_.CreateMul(across_, number(v.width)), number(n * side * v.width));
}

Value* Square::column(int n, int columns) {
  const Vectors v = vectors(columns);
  return ir_.CreateAdd(first_column(v, n / v.width), number(n % v.width));
}

llvm::Align Square::alignment(int count) const {
  return llvm::Align(static_cast<uint64_t>(std::min<int64_t>(16, count * size_of(dtype_))));
}

Square::Values Square::load(Value* memory, Value* first, int count) {
  if (count == 1) return {ir_.CreateLoad(type_, at(memory, first))};
  auto* vector = llvm::FixedVectorType::get(type_, static_cast<unsigned>(count));
  Value* all = ir_.CreateAlignedLoad(vector, at(memory, first), alignment(count));
  Values out;
  for (int n = 0; n < count; ++n)
    out.push_back(ir_.CreateExtractElement(all, static_cast<uint64_t>(n)));
  return out;
}

void Square::store(const Values& values, Value* memory, Value* first) {
  const auto count = static_cast<unsigned>(values.size());
  if (count == 1) {
    ir_.CreateStore(values[0], at(memory, first));
    return;
  }
  Value* all = llvm::PoisonValue::get(llvm::FixedVectorType::get(type_, count));
  for (unsigned n = 0; n < count; ++n) all = ir_.CreateInsertElement(all, values[n], uint64_t{n});
  ir_.CreateAlignedStore(all, at(memory, first), alignment(static_cast<int>(count)));
}

Square::Values Square::row_of(Value* memory, Value* row, int stride, int columns) {
  const Vectors v = vectors(columns);
  Values out;
  for (int n = 0; n < v.count; ++n) {
    Value* first = ir_.CreateAdd(ir_.CreateMul(row, number(stride)), first_column(v, n));
    for (Value* x : load(memory, first, v.width)) out.push_back(x);
  }
  return out;
}

void Square::put_row(std::span<Value* const> values, Value* memory, Value* row, int stride,
                     int columns) {
  const Vectors v = vectors(columns);
  for (int n = 0; n < v.count; ++n) {
    const auto part =
        values.subspan(static_cast<size_t>(n * v.width), static_cast<size_t>(v.width));
    Value* first = ir_.CreateAdd(ir_.CreateMul(row, number(stride)), first_column(v, n));
    store({part.begin(), part.end()}, memory, first);
  }
}

Square::Values Square::products(Scope& at, const Factor& left, const Factor& right,
                                const Expr& depth, int columns, Value* memory) {
  const Values none(static_cast<size_t>(own_ * columns_each(columns)),
                    llvm::Constant::getNullValue(type_));
  const int stride = rows_ + pad, right_stride = columns + pad;
  Value* second = ir_.CreateConstGEP1_32(type_, memory, static_cast<unsigned>(step() * stride));
  auto chain = [&](Scope& block, Value* begin, Value* end) {
    return emit_loop(block, begin, end, k_.i64(step()), false, none,
                     [&](Scope& inner, Value* d, Values now) {
                       inner.seek();
                       operands_.barrier();
                       operands_.stage(inner, left, d, rows_, step(), dtype_,
                                       llvm::ConstantFP::getNegativeZero(type_), memory, stride);
                       operands_.stage(inner, right, d, columns, step(), dtype_,
                                       llvm::Constant::getNullValue(type_), second, right_stride);
                       inner.seek();
                       operands_.barrier();
                       multiply(now, memory, second, columns);
                       return now;
                     });
  };
  if (depth.is_const() && depth.constant_value() <= atlas::product_block)
    return chain(at, k_.i64(0), left.depth);
  return emit_loop(
      at, k_.i64(0), left.depth, k_.i64(atlas::product_block), false, none,
      [&](Scope& block, Value* begin, Values before) {
        Value* end = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left.depth,
                                               ir_.CreateAdd(begin, k_.i64(atlas::product_block)));
        Values now = chain(block, begin, end);
        block.seek();
        Value* first = ir_.CreateICmpEQ(begin, k_.i64(0));
        for (size_t n = 0; n < now.size(); ++n) {
          Value* sum = emit_arithmetic(k_, ir::Op::add, dtype_, std::array{before[n], now[n]});
          now[n] = ir_.CreateSelect(first, now[n], sum);
        }
        return now;
      });
}

void Square::multiply(Values& chains, Value* memory, Value* right, int columns) {
  const auto each = static_cast<size_t>(columns_each(columns));
  for (int d = 0; d < step(); ++d) {
    Value* first = ir_.CreateAdd(down_, number(d * (rows_ + pad)));
    const Values x = load(memory, first, own_),
                 y = row_of(right, number(d), columns + pad, columns);
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < each; ++j)
        chains[i * each + j] = multiply_add(k_, dtype_, x[i], y[j], chains[i * each + j]);
  }
}

}  // namespace hologram::cuda
