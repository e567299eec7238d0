// backend/cuda/products/tensor_tile.cpp: fragments of both factors, and sums to the epilogue.
#include "backend/cuda/products/tensor_tile.h"

namespace hologram::cuda {

TensorTile::TensorTile(CudaFunction& k, const Shape& shape)
    : ProductTile(k, shape.tiling()), k_(k), ir_(k.ir), shape_(shape) {
  scope().seek();
  Value* warp = ir_.CreateLShr(k_.thread(), 5);
  lane_ = ir_.CreateAnd(k_.thread(), 31);
  row_ = ir_.CreateMul(ir_.CreateUDiv(warp, number(shape.across)), number(shape.warp_rows()));
  column_ = ir_.CreateMul(ir_.CreateURem(warp, number(shape.across)), number(shape.warp_columns()));
}

TensorTile::Registers TensorTile::load_left(Value* memory, Value* base, int k) {
  const Matrices from{memory, base, left_stride(), left().depth_run};
  Registers out;
  for (int i = 0; i < shape_.row_tiles(); ++i)
    out.push_back(load_matrices(k_, from, ir_.CreateAdd(row_, number(16 * i)), number(k), false));
  return out;
}

TensorTile::Registers TensorTile::load_right(Value* memory, Value* base, int k) {
  const Matrices from{memory, base, right_stride(), right().depth_run};
  Registers out;
  for (int j = 0; j < shape_.column_tiles(); j += 2) {
    const auto two =
        load_matrices(k_, from, ir_.CreateAdd(column_, number(8 * j)), number(k), true);
    out.push_back({two[0], two[1]});
    out.push_back({two[2], two[3]});
  }
  return out;
}

void TensorTile::multiply(DType type, const Registers& left, const Registers& right, Value** sums) {
  for (const auto& rows : left)
    for (const auto& columns : right) {
      if (size_of(type) == 1)
        multiply_bytes(k_, type == DType::i8, this->right().type == DType::i8, rows, columns, sums);
      else
        multiply_matrices(k_, type, rows, columns, sums);
      sums += 4;
    }
}

void TensorTile::finish_sums(const std::vector<Value*>& sums, Value* memory) {
  llvm::Type* type = sums[0]->getType();
  auto* pair = llvm::FixedVectorType::get(type, 2);
  const int stride = shape_.slice_stride(), warp_rows = shape_.warp_rows();
  for (int i = 0; i < shape_.row_tiles(); ++i) {
    scope().seek();
    Value* row = ir_.CreateMul(ir_.CreateUDiv(row_, number(warp_rows)), number(16));
    row = ir_.CreateAdd(row, ir_.CreateLShr(lane_, 2));
    Value* column = ir_.CreateAdd(column_, ir_.CreateShl(ir_.CreateAnd(lane_, 3), 1));
    barrier();
    for (int j = 0; j < shape_.column_tiles(); ++j)
      for (int half = 0; half < 2; ++half) {
        const auto first = static_cast<size_t>((i * shape_.column_tiles() + j) * 4 + 2 * half);
        Value* two =
            ir_.CreateInsertElement(llvm::PoisonValue::get(pair), sums[first], uint64_t{0});
        two = ir_.CreateInsertElement(two, sums[first + 1], uint64_t{1});
        Value* at = ir_.CreateMul(ir_.CreateAdd(row, number(8 * half)), number(stride));
        at = ir_.CreateAdd(ir_.CreateAdd(at, column), number(8 * j));
        ir_.CreateAlignedStore(two, ir_.CreateGEP(type, memory, at), llvm::Align(8));
      }
    barrier();
    auto row_of = [&](Value* r) {  // of row r in the slice
      Value* upper = ir_.CreateMul(ir_.CreateLShr(r, 4), number(warp_rows));
      return ir_.CreateAdd(ir_.CreateAdd(upper, ir_.CreateAnd(r, 15)), number(16 * i));
    };
    finish(memory, stride, shape_.slice(), row_of);
  }
}

}  // namespace hologram::cuda
