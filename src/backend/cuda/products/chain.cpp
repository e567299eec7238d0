// backend/cuda/products/chain.cpp: products as chains of multiply-adds, 4 x 4 of them a thread.
#include "backend/cuda/products/chain.h"

#include <algorithm>

#include "atlas/order.h"
#include "backend/cuda/products/tile.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

class Chains {
 public:
  static constexpr int side = 64;      // of a CTA's tile
  static constexpr int threads = 256;  // 16 x 16
  static constexpr Tiling tiling{side, side, threads};

  explicit Chains(CudaFunction& k)
      : k_(k),
        ir_(k.ir),
        type_(k.program.product().acc_type),
        tile_(k, tiling),
        left_(k.shared(k.type_of(type_), side * side, "tile")),
        right_(ir_.CreateConstGEP1_32(k.type_of(type_), left_, step * stride)) {}

  void run() {
    Scope& scope = tile_.scope();
    scope.seek();
    llvm::Constant* zero = llvm::Constant::getNullValue(k_.type_of(type_));
    across_ = ir_.CreateMul(ir_.CreateAnd(k_.thread(), 15), ir_.getInt32(own));
    down_ = ir_.CreateMul(ir_.CreateLShr(k_.thread(), 4), ir_.getInt32(own));
    const std::vector<Value*> none(own * own, zero);
    store(emit_loop(scope, k_.i64(0), tile_.depth(), k_.i64(atlas::product_block), false, none,
                    [&](Scope& block, Value* begin, std::vector<Value*> sums) {
                      return add_block(block, begin, std::move(sums), none);
                    }));
    tile_.finish(left_, side, side, [](Value* row) { return row; });
  }

 private:
  static constexpr int own = 4;            // rows and columns of a thread
  static constexpr int step = 16;          // values of k in shared memory at a time
  static constexpr int stride = side + 4;  // rows of the factors stay aligned to 16 bytes
  static_assert(atlas::product_block % step == 0);

  // A chain over one block of k, added to the sums; the first block's is the sum.
  std::vector<Value*> add_block(Scope& block, Value* begin, std::vector<Value*> sums,
                                const std::vector<Value*>& none) {
    Value* end = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, tile_.depth(),
                                           ir_.CreateAdd(begin, k_.i64(atlas::product_block)));
    Value* first = ir_.CreateICmpEQ(begin, k_.i64(0));
    std::vector<Value*> chains = emit_loop(block, begin, end, k_.i64(step), true, none,
                                           [&](Scope& part, Value* k, std::vector<Value*> now) {
                                             load(part, k);
                                             multiply(now);
                                             return now;
                                           });
    block.seek();
    for (size_t n = 0; n < sums.size(); ++n)
      sums[n] =
          ir_.CreateSelect(first, chains[n],
                           emit_arithmetic(k_, ir::Op::add, type_, std::array{sums[n], chains[n]}));
    return sums;
  }

  // Behind the last k the factors are -0 and 0: their product leaves any chain as it is.
  void load(Scope& part, Value* k) {
    llvm::Type* type = k_.type_of(type_);
    llvm::Constant* zero = llvm::Constant::getNullValue(type);
    llvm::Constant* minus_zero = is_float(type_) ? llvm::ConstantFP::getNegativeZero(type) : zero;
    tile_.barrier();
    tile_.stage(part, tile_.left(), k, side, step, type_, minus_zero, left_, stride);
    tile_.stage(part, tile_.right(), k, side, step, type_, zero, right_, stride);
    part.seek();
    tile_.barrier();
  }

  void multiply(std::vector<Value*>& chains) {
    for (int k = 0; k < step; ++k) {
      const std::vector<Value*> x = numbers(left_, k, down_), y = numbers(right_, k, across_);
      for (size_t i = 0; i < own; ++i)
        for (size_t j = 0; j < own; ++j)
          chains[i * own + j] = multiply_add(k_, type_, x[i], y[j], chains[i * own + j]);
    }
  }

  // The thread's numbers of one k.
  std::vector<Value*> numbers(Value* from, int k, Value* at) {
    llvm::Type* type = k_.type_of(type_);
    auto* vector = llvm::FixedVectorType::get(type, own);
    Value* place = ir_.CreateAdd(at, ir_.getInt32(static_cast<uint32_t>(k * stride)));
    Value* all = ir_.CreateAlignedLoad(vector, ir_.CreateGEP(type, from, place), alignment());
    std::vector<Value*> out;
    for (uint64_t n = 0; n < own; ++n) out.push_back(ir_.CreateExtractElement(all, n));
    return out;
  }

  // The sums take the place of the factors.
  void store(const std::vector<Value*>& sums) {
    tile_.scope().seek();
    llvm::Type* type = k_.type_of(type_);
    auto* vector = llvm::FixedVectorType::get(type, own);
    tile_.barrier();
    for (size_t i = 0; i < own; ++i) {
      Value* all = llvm::PoisonValue::get(vector);
      for (size_t j = 0; j < own; ++j) all = ir_.CreateInsertElement(all, sums[i * own + j], j);
      Value* row = ir_.CreateAdd(down_, ir_.getInt32(static_cast<uint32_t>(i)));
      Value* place = ir_.CreateAdd(ir_.CreateMul(row, ir_.getInt32(side)), across_);
      ir_.CreateAlignedStore(all, ir_.CreateGEP(type, left_, place), alignment());
    }
    tile_.barrier();
  }

  llvm::Align alignment() const {
    return llvm::Align(static_cast<uint64_t>(std::min<int64_t>(16, own * size_of(type_))));
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  DType type_;
  ProductTile tile_;
  Value *left_, *right_;                       // in shared memory
  Value *across_ = nullptr, *down_ = nullptr;  // the thread's first column and row, i32
};

}  // namespace

Facts emit_chains(llvm::Module& module, const atlas::Program& program) {
  return emit_tiles(module, program, Chains::tiling, [](CudaFunction& k) { Chains(k).run(); });
}

}  // namespace hologram::cuda
