// backend/cuda/products/tensor.cpp: products of 16-bit floats by mma.m16n8k16.
//
// A CTA of eight warps computes 128 x 128 results, a warp 64 x 32 of them. 32 values of k of both
// factors are in shared memory, the next 32 on their way through registers.
#include "backend/cuda/products/tensor.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "backend/cuda/matrices.h"
#include "backend/cuda/products/tile.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr int side = 128, step = 32, threads = 256;
constexpr int warps_across = 4, warp_rows = 64, warp_columns = 32;
constexpr int row_tiles = warp_rows / 16, column_tiles = warp_columns / 8;
// Rows of the factors in shared memory, in elements: eight of them lie in different banks.
constexpr int along_depth = step + 8, across_depth = side + 8;
constexpr int buffer = side * along_depth;          // elements of a factor; step * across_depth fit
constexpr int slice = 32, slice_stride = side + 4;  // rows of sums that the epilogue gets at a time
static_assert(step * across_depth <= buffer && slice * slice_stride * 2 <= 4 * buffer);

class TensorProduct {
 public:
  explicit TensorProduct(CudaFunction& k)
      : k_(k), ir_(k.ir), tile_(k, side, side, threads), half_(ir_.getInt16Ty()) {}

  void run() {
    Scope& scope = tile_.scope();
    scope.seek();
    // Left, right, and both once more.
    memory_ = k_.shared(half_, 4 * buffer, "factors");
    Value* warp = ir_.CreateLShr(k_.thread(), 5);
    lane_ = ir_.CreateAnd(k_.thread(), 31);
    row_ = ir_.CreateMul(ir_.CreateUDiv(warp, number(warps_across)), number(warp_rows));
    column_ = ir_.CreateMul(ir_.CreateURem(warp, number(warps_across)), number(warp_columns));
    Value* depth = tile_.depth();
    Value* last = ir_.CreateAnd(ir_.CreateSub(depth, k_.i64(1)), k_.i64(-step));
    emit_if(scope, ir_.CreateICmpSGT(depth, k_.i64(0)), [&](Scope& some) {
      put(some, fetch(some, k_.i64(0)), number(0));
      tile_.barrier();
    });
    std::vector<Value*> sums(row_tiles * column_tiles * 4,
                             llvm::ConstantFP::get(ir_.getFloatTy(), 0.0));
    sums = emit_loop(scope, k_.i64(0), depth, k_.i64(step), false, std::move(sums),
                     [&](Scope& part, Value* k, std::vector<Value*> now) {
                       Value* next = ir_.CreateBinaryIntrinsic(Intrinsic::smin, last,
                                                               ir_.CreateAdd(k, k_.i64(step)));
                       const Pieces pieces = fetch(part, next);
                       part.seek();
                       // What follows is the whole warp's, and fetching may have parted it.
                       ir_.CreateIntrinsic(Intrinsic::nvvm_bar_warp_sync, {}, {ir_.getInt32(~0u)});
                       Value* odd =
                           ir_.CreateTrunc(ir_.CreateAnd(k, k_.i64(step)), ir_.getInt32Ty());
                       Value* here = ir_.CreateMul(odd, number(2 * buffer / step));
                       for (int inner = 0; inner < step; inner += 16) multiply(here, inner, now);
                       put(part, pieces, ir_.CreateSub(number(2 * buffer), here));
                       tile_.barrier();
                       return now;
                     });
    finish(sums);
    k_.root().move_to(ir_.GetInsertBlock());
    k_.root().seek();
    k_.finish();
  }

 private:
  using Pieces = std::pair<std::vector<ProductTile::Piece>, std::vector<ProductTile::Piece>>;

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  static int stride(const Factor& f) { return f.depth_run ? along_depth : across_depth; }

  Pieces fetch(Scope& at, Value* k) {
    auto left = tile_.fetch(at, tile_.left(), k, side, step, stride(tile_.left()));
    auto right = tile_.fetch(at, tile_.right(), k, side, step, stride(tile_.right()));
    return {std::move(left), std::move(right)};
  }

  void put(Scope& at, const Pieces& pieces, Value* offset) {
    tile_.write(at, pieces.first, memory_, offset, 0);
    tile_.write(at, pieces.second, memory_, offset, buffer);
  }

  std::vector<Value*> matrices(const Factor& factor, Value* base, Value* x, int k,
                               bool depth_first) {
    const Matrices from{memory_, base, stride(factor), factor.depth_run};
    return load_matrices(k_, from, x, number(k), depth_first);
  }

  void multiply(Value* here, int k, std::vector<Value*>& sums) {
    std::vector<std::vector<Value*>> left, right;
    for (int i = 0; i < row_tiles; ++i)
      left.push_back(matrices(tile_.left(), here, ir_.CreateAdd(row_, number(16 * i)), k, false));
    Value* base = ir_.CreateAdd(here, number(buffer));
    for (int j = 0; j < column_tiles; j += 2) {
      const auto two =
          matrices(tile_.right(), base, ir_.CreateAdd(column_, number(8 * j)), k, true);
      right.push_back({two[0], two[1]});
      right.push_back({two[2], two[3]});
    }
    for (size_t i = 0; i < left.size(); ++i)
      for (size_t j = 0; j < right.size(); ++j)
        multiply_matrices(k_, tile_.left().type, left[i], right[j],
                          sums.data() + (i * right.size() + j) * 4);
  }

  // 16 rows of each half of the warps at a time, in the factors' place.
  void finish(const std::vector<Value*>& sums) {
    llvm::Type* real = ir_.getFloatTy();
    auto* pair = llvm::FixedVectorType::get(real, 2);
    for (size_t i = 0; i < row_tiles; ++i) {
      tile_.scope().seek();
      Value* row = ir_.CreateAdd(ir_.CreateLShr(row_, 2), ir_.CreateLShr(lane_, 2));
      Value* column = ir_.CreateAdd(column_, ir_.CreateShl(ir_.CreateAnd(lane_, 3), 1));
      tile_.barrier();
      for (size_t j = 0; j < column_tiles; ++j)
        for (size_t half = 0; half < 2; ++half) {
          Value* const* from = sums.data() + (i * column_tiles + j) * 4 + 2 * half;
          Value* two = ir_.CreateInsertElement(llvm::PoisonValue::get(pair), from[0], uint64_t{0});
          two = ir_.CreateInsertElement(two, from[1], uint64_t{1});
          Value* at = ir_.CreateMul(ir_.CreateAdd(row, number(static_cast<int>(8 * half))),
                                    number(slice_stride));
          at = ir_.CreateAdd(ir_.CreateAdd(at, column), number(static_cast<int>(8 * j)));
          ir_.CreateAlignedStore(two, ir_.CreateGEP(real, memory_, at), llvm::Align(8));
        }
      tile_.barrier();
      tile_.finish(memory_, slice_stride, slice, [&](Value* r) {  // of row r in the slice
        Value* upper = ir_.CreateMul(ir_.CreateLShr(r, 4), number(warp_rows));
        return ir_.CreateAdd(ir_.CreateAdd(upper, ir_.CreateAnd(r, 15)),
                             number(static_cast<int>(16 * i)));
      });
    }
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  ProductTile tile_;
  llvm::Type* half_;
  Value* memory_ = nullptr;                                     // shared
  Value *lane_ = nullptr, *row_ = nullptr, *column_ = nullptr;  // the warp's part of the tile, i32
};

}  // namespace

bool suits_tensor_cores(const atlas::ProductBlock& block) {
  const bool half = block.operand_type == DType::bf16 || block.operand_type == DType::f16;
  return half && !block.mixed && block.acc_type == DType::f32 && !block.reproducible;
}

Facts emit_tensor_product(llvm::Module& module, const atlas::Program& program) {
  Facts facts;
  facts.threads = threads;
  facts.points = 1;
  facts.total = ProductTile::tiles(program.product(), side, side);
  CudaFunction k(module, program, facts.threads);
  TensorProduct(k).run();
  facts.flags = k.flags();
  return facts;
}

}  // namespace hologram::cuda
