// backend/cuda/products/tensor.cpp: products of 16-bit floats by mma.m16n8k16, and of
// bytes by mma.m16n8k32.
//
// A CTA of eight warps computes 128 x 128 results, a warp 64 x 32 of them. 32 values of k of both
// factors are in shared memory (64 bytes), the next ones on their way through registers. Two bytes
// go where one 16-bit number does.
#include "backend/cuda/products/tensor.h"

#include "backend/cuda/products/tensor_tile.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr TensorTile::Shape shape{
    .rows = 128, .columns = 128, .down = 2, .across = 4, .step = 32, .unit = 256, .ctas = 128};
constexpr int buffer = shape.elements(128);
static_assert(shape.unit % (2 * shape.step) == 0);  // a part begins with the first buffer
static_assert(shape.slice() * shape.slice_stride() * 2 <= 4 * buffer);

// Values of k in 16 bits.
int together(const atlas::ProductBlock& block) { return size_of(block.operand_type) == 1 ? 2 : 1; }

TensorTile::Shape shape_of(const atlas::ProductBlock& block) {
  TensorTile::Shape own = shape;
  own.unit *= together(block);
  return own;
}

class TensorProduct {
 public:
  explicit TensorProduct(CudaFunction& k)
      : k_(k),
        ir_(k.ir),
        together_(together(k.program.product())),
        step_(shape.step * together_),
        tile_(k, shape_of(k.program.product())),
        // Left, right, and both once more.
        memory_(k.shared(ir_.getInt16Ty(), 4 * buffer, "factors")) {}

  void run() {
    Scope& scope = tile_.scope();
    scope.seek();
    Value *begin = tile_.begin(), *end = tile_.end();
    Value* last = ir_.CreateAnd(ir_.CreateSub(end, k_.i64(1)), k_.i64(-step_));
    emit_if(scope, ir_.CreateICmpSGT(end, begin), [&](Scope& some) {
      put(some, fetch(some, begin), number(0));
      tile_.barrier();
    });
    std::vector<Value*> sums(
        shape.sums(), llvm::Constant::getNullValue(k_.type_of(k_.program.product().acc_type)));
    sums = emit_loop(scope, begin, end, k_.i64(step_), false, std::move(sums),
                     [&](Scope& part, Value* k, std::vector<Value*> now) {
                       Value* next = ir_.CreateBinaryIntrinsic(Intrinsic::smin, last,
                                                               ir_.CreateAdd(k, k_.i64(step_)));
                       const Pieces pieces = fetch(part, next);
                       part.seek();
                       // What follows is the whole warp's, and fetching may have parted it.
                       sync_warp(ir_);
                       Value* odd =
                           ir_.CreateTrunc(ir_.CreateAnd(k, k_.i64(step_)), ir_.getInt32Ty());
                       Value* here = ir_.CreateMul(odd, number(2 * buffer / step_));
                       for (int inner = 0; inner < shape.step; inner += 16)
                         multiply(here, inner, now);
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
    auto take = [&](const Factor& factor, int count, int stride) {
      return tile_.fetch(at, factor, k, count, step_, stride * together_);
    };
    auto left = take(tile_.left(), shape.rows, tile_.left_stride());
    auto right = take(tile_.right(), shape.columns, tile_.right_stride());
    return {std::move(left), std::move(right)};
  }

  // From element `offset` of 16 bits on.
  void put(Scope& at, const Pieces& pieces, Value* offset) {
    at.seek();
    offset = ir_.CreateMul(offset, number(together_));
    tile_.write(at, pieces.first, memory_, offset, 0);
    tile_.write(at, pieces.second, memory_, offset, buffer * together_);
  }

  void multiply(Value* here, int k, std::vector<Value*>& sums) {
    const auto left = tile_.load_left(memory_, here, k);
    const auto right = tile_.load_right(memory_, ir_.CreateAdd(here, number(buffer)), k);
    tile_.multiply(tile_.left().type, left, right, sums.data());
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  int together_, step_;
  TensorTile tile_;
  Value* memory_;  // shared
};

}  // namespace

bool suits_tensor_cores(const atlas::ProductBlock& block) {
  const DType type = block.operand_type;
  if (type == DType::i8 || type == DType::u8)
    return block.acc_type == DType::i32 && lies_along(block.lhs, block.batch_rank + 2) &&
           lies_along(block.rhs, block.batch_rank + 2);
  const bool half = type == DType::bf16 || type == DType::f16;
  return half && !block.mixed && block.acc_type == DType::f32 && !block.reproducible;
}

Tiling tensor_tiling(const atlas::ProductBlock& block) { return shape_of(block).tiling(); }

Facts emit_tensor_product(llvm::Module& module, const atlas::Program& program) {
  return emit_tiles(module, program, tensor_tiling(program.product()),
                    [](CudaFunction& k) { TensorProduct(k).run(); });
}

}  // namespace hologram::cuda
