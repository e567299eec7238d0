// backend/cuda/products/skinny.cpp: products of few rows: a warp reads some columns of the right
// factor, eight values of k a lane, and all rows of the left one.
#include "backend/cuda/products/skinny.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "backend/cuda/products/tile.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr int most_rows = 4, skinny_threads = 128, skinny_warps = skinny_threads / 32;

// Columns of a warp: more of them for fewer rows, so that there are about as many sums.
int columns_for(int rows) { return rows <= 2 ? 4 : 2; }

int skinny_rows(const atlas::ProductBlock& block) {
  const Expr& m = block.axes[static_cast<size_t>(block.batch_rank)].extent;
  return m.is_const() && m.constant_value() <= most_rows ? static_cast<int>(m.constant_value()) : 0;
}

Tiling tiling_of(const atlas::ProductBlock& block) {
  const int rows = skinny_rows(block);
  return {rows, skinny_warps * columns_for(rows), skinny_threads, 32 * ProductTile::lanes,
          256,  block.operand_type == DType::f32};
}

class SkinnyProduct {
 public:
  explicit SkinnyProduct(CudaFunction& k)
      : k_(k),
        ir_(k.ir),
        block_(k.program.product()),
        rows_(skinny_rows(block_)),
        columns_(columns_for(rows_)),
        tile_(k, tiling_of(block_)) {
    tile_.read_along_depth();
  }

  void run() {
    Scope& scope = tile_.scope();
    scope.seek();
    Value* warp = ir_.CreateLShr(k_.thread(), 5);
    lane_ = ir_.CreateAnd(k_.thread(), 31);
    column_ = ir_.CreateMul(warp, number(columns_));
    Value* first = ir_.CreateAdd(tile_.right().first, ir_.CreateZExt(column_, ir_.getInt64Ty()));
    auto* vector = llvm::FixedVectorType::get(ir_.getFloatTy(), ProductTile::lanes);
    std::vector<Value*> sums(static_cast<size_t>(rows_ * columns_),
                             llvm::Constant::getNullValue(vector));
    Value* begin =
        ir_.CreateZExt(ir_.CreateMul(lane_, number(ProductTile::lanes)), ir_.getInt64Ty());
    begin = ir_.CreateAdd(begin, tile_.begin());
    sums = emit_loop(scope, begin, tile_.end(), k_.i64(32 * ProductTile::lanes), false,
                     std::move(sums), [&](Scope& part, Value* k, std::vector<Value*> now) {
                       multiply(part, k, first, now);
                       return now;
                     });
    scope.seek();
    finish(sums);
  }

 private:
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }

  void multiply(Scope& part, Value* k, Value* column, std::vector<Value*>& sums) {
    auto numbers = [&](const Factor& factor, Value* from, int count) {
      std::vector<Value*> out;
      for (int n = 0; n < count; ++n) {
        part.seek();
        Value* bits = tile_.eight(part, factor, ir_.CreateAdd(from, k_.i64(n)), k);
        if (factor.type != DType::f32)
          bits = emit_cast(k_, ir::Op::cast, bits, factor.type, DType::f32);
        out.push_back(bits);
      }
      return out;
    };
    const std::vector<Value*> left = numbers(tile_.left(), tile_.left().first, rows_);
    const std::vector<Value*> right = numbers(tile_.right(), column, columns_);
    part.seek();
    for (size_t i = 0; i < left.size(); ++i)
      for (size_t j = 0; j < right.size(); ++j) {
        Value*& sum = sums[i * right.size() + j];
        sum = multiply_add(k_, DType::f32, left[i], right[j], sum);
      }
  }

  // The eight sums of a lane, then those of the lanes: halves onto halves.
  Value* total(Value* sum) {
    auto add = [&](Value* x, Value* y) {
      return emit_arithmetic(k_, ir::Op::add, DType::f32, std::array{x, y});
    };
    std::vector<Value*> parts;
    for (uint64_t n = 0; n < ProductTile::lanes; ++n)
      parts.push_back(ir_.CreateExtractElement(sum, n));
    for (size_t half = parts.size() / 2; half > 0; half /= 2)
      for (size_t n = 0; n < half; ++n) parts[n] = add(parts[n], parts[n + half]);
    Value* all = parts[0];
    for (int distance = 16; distance > 0; distance /= 2)
      all = add(all, ir_.CreateIntrinsic(Intrinsic::nvvm_shfl_sync_bfly_f32, {},
                                         {ir_.getInt32(~0u), all, number(distance), number(31)}));
    return all;
  }

  // Lane n finishes sum number n of its warp.
  void finish(const std::vector<Value*>& sums) {
    Value* own = nullptr;
    for (size_t n = 0; n < sums.size(); ++n) {
      Value* all = total(sums[n]);
      Value* mine = ir_.CreateICmpEQ(lane_, number(static_cast<int>(n)));
      own = own ? ir_.CreateSelect(mine, all, own) : all;
    }
    Value *row = ir_.CreateUDiv(lane_, number(columns_)),
          *across = ir_.CreateURem(lane_, number(columns_));
    tile_.finish_element(tile_.scope(), row, ir_.CreateAdd(column_, across),
                         ir_.CreateICmpULT(row, number(rows_)), [&] { return own; });
    tile_.scope().seek();
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::ProductBlock& block_;
  int rows_, columns_;  // of a warp
  ProductTile tile_;
  Value *lane_ = nullptr, *column_ = nullptr;  // the warp's first column of the tile, i32
};

}  // namespace

bool is_skinny(const atlas::ProductBlock& block) {
  return skinny_rows(block) > 0 && lies_along(block.lhs, block.batch_rank + 2) &&
         lies_along(block.rhs, block.batch_rank + 2);
}

Facts emit_skinny_product(llvm::Module& module, const atlas::Program& program) {
  return emit_tiles(module, program, tiling_of(program.product()),
                    [](CudaFunction& k) { SkinnyProduct(k).run(); });
}

}  // namespace hologram::cuda
