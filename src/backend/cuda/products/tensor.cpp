// backend/cuda/products/tensor.cpp: products of 16-bit floats by mma.m16n8k16.
//
// A CTA of eight warps computes 128 x 128 results, a warp 64 x 32 of them. 32 values of k of both
// factors are in shared memory, the next 32 on their way through registers.
#include "backend/cuda/products/tensor.h"

#include "backend/cuda/products/tensor_tile.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr TensorTile::Shape shape{
    .rows = 128, .columns = 128, .down = 2, .across = 4, .step = 32, .unit = 256};
constexpr int step = shape.step, buffer = shape.elements(128);
static_assert(shape.unit % (2 * step) == 0);  // a part begins with the first buffer
static_assert(shape.slice() * shape.slice_stride() * 2 <= 4 * buffer);

class TensorProduct {
 public:
  explicit TensorProduct(CudaFunction& k)
      : k_(k),
        ir_(k.ir),
        tile_(k, shape),
        // Left, right, and both once more.
        memory_(k.shared(ir_.getInt16Ty(), 4 * buffer, "factors")) {}

  void run() {
    Scope& scope = tile_.scope();
    scope.seek();
    Value *begin = tile_.begin(), *end = tile_.end();
    Value* last = ir_.CreateAnd(ir_.CreateSub(end, k_.i64(1)), k_.i64(-step));
    emit_if(scope, ir_.CreateICmpSGT(end, begin), [&](Scope& some) {
      put(some, fetch(some, begin), number(0));
      tile_.barrier();
    });
    std::vector<Value*> sums(shape.sums(), llvm::ConstantFP::get(ir_.getFloatTy(), 0.0));
    sums = emit_loop(scope, begin, end, k_.i64(step), false, std::move(sums),
                     [&](Scope& part, Value* k, std::vector<Value*> now) {
                       Value* next = ir_.CreateBinaryIntrinsic(Intrinsic::smin, last,
                                                               ir_.CreateAdd(k, k_.i64(step)));
                       const Pieces pieces = fetch(part, next);
                       part.seek();
                       // What follows is the whole warp's, and fetching may have parted it.
                       sync_warp(ir_);
                       Value* odd =
                           ir_.CreateTrunc(ir_.CreateAnd(k, k_.i64(step)), ir_.getInt32Ty());
                       Value* here = ir_.CreateMul(odd, number(2 * buffer / step));
                       for (int inner = 0; inner < step; inner += 16) multiply(here, inner, now);
                       put(part, pieces, ir_.CreateSub(number(2 * buffer), here));
                       tile_.barrier();
                       return now;
                     });
    tile_.finish_sums(sums, memory_);
  }

 private:
  using Pieces = std::pair<std::vector<ProductTile::Piece>, std::vector<ProductTile::Piece>>;

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }

  Pieces fetch(Scope& at, Value* k) {
    auto left = tile_.fetch(at, tile_.left(), k, shape.rows, step, tile_.left_stride());
    auto right = tile_.fetch(at, tile_.right(), k, shape.columns, step, tile_.right_stride());
    return {std::move(left), std::move(right)};
  }

  void put(Scope& at, const Pieces& pieces, Value* offset) {
    tile_.write(at, pieces.first, memory_, offset, 0);
    tile_.write(at, pieces.second, memory_, offset, buffer);
  }

  void multiply(Value* here, int k, std::vector<Value*>& sums) {
    const auto left = tile_.load_left(memory_, here, k);
    const auto right = tile_.load_right(memory_, ir_.CreateAdd(here, number(buffer)), k);
    tile_.multiply(tile_.left().type, left, right, sums.data());
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  TensorTile tile_;
  Value* memory_;  // shared
};

}  // namespace

bool suits_tensor_cores(const atlas::ProductBlock& block) {
  const bool half = block.operand_type == DType::bf16 || block.operand_type == DType::f16;
  return half && !block.mixed && block.acc_type == DType::f32 && !block.reproducible;
}

Facts emit_tensor_product(llvm::Module& module, const atlas::Program& program) {
  return emit_tiles(module, program, shape.tiling(),
                    [](CudaFunction& k) { TensorProduct(k).run(); });
}

}  // namespace hologram::cuda
