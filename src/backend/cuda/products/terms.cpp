// backend/cuda/products/terms.cpp: float32 products by mma.m16n8k16.
//
// A number is high + middle + low, three bfloat16 numbers that hold its 24 bits. Of the nine
// products of terms the six largest are taken, the small ones first, for 32 values of k into sums
// that begin at zero. Tensor cores cut sums towards zero; so these are added to the sums of 384
// values of k, and those to the result, by additions that round to nearest.
//
// A CTA of four warps computes 64 x 64 results. Terms of 32 values of k are in shared memory, the
// next 32 values on their way through registers.
#include "backend/cuda/products/terms.h"

#include "atlas/order.h"
#include "backend/cuda/products/tensor_tile.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr TensorTile::Shape shape{.rows = 64, .columns = 64, .down = 2, .across = 2, .step = 32};
constexpr int step = shape.step, plane = shape.elements(64);
constexpr int terms = 3;
enum Term { high, middle, low };
static_assert(atlas::product_block % step == 0);
static_assert(shape.slice() * shape.slice_stride() * 2 <= 2 * terms * plane);

class TermProduct {
 public:
  explicit TermProduct(CudaFunction& k)
      : k_(k),
        ir_(k.ir),
        block_(k.program.product()),
        tile_(k, shape),
        // Terms of the left factor, terms of the right one.
        memory_(k.shared(ir_.getInt16Ty(), 2 * terms * plane, "factors")) {}

  void run() {
    Scope& scope = tile_.scope();
    scope.seek();
    Value* depth = tile_.depth();
    last_ = ir_.CreateAnd(ir_.CreateSub(depth, k_.i64(1)), k_.i64(-step));
    auto* eight = llvm::FixedVectorType::get(ir_.getFloatTy(), ProductTile::lanes);
    Values pieces(pieces_of(shape.rows) + pieces_of(shape.columns),
                  llvm::Constant::getNullValue(eight));
    Value* any = ir_.CreateBinaryIntrinsic(Intrinsic::smin, depth, k_.i64(1));
    pieces = emit_loop(scope, k_.i64(0), any, k_.i64(1), false, std::move(pieces),
                       [&](Scope& some, Value* k, const Values&) { return fetch(some, k); });
    Values state = none();
    state.insert(state.end(), pieces.begin(), pieces.end());
    state = emit_loop(scope, k_.i64(0), depth, k_.i64(atlas::product_block), false,
                      std::move(state), [&](Scope& block, Value* begin, Values now) {
                        return add_block(block, begin, std::move(now));
                      });
    state.resize(shape.sums());
    tile_.finish_sums(state, memory_, [&](Scope& point, Value* sum) { return mend(point, sum); });
  }

 private:
  using Values = std::vector<Value*>;

  static constexpr size_t pieces_of(int count) {
    return static_cast<size_t>(count * step / ProductTile::lanes / shape.threads());
  }
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Values none() { return Values(shape.sums(), llvm::ConstantFP::get(ir_.getFloatTy(), 0.0)); }

  // Sums, and behind them what comes into shared memory next.
  Values add_block(Scope& block, Value* begin, Values state) {
    Value* end = ir_.CreateBinaryIntrinsic(Intrinsic::smin, tile_.depth(),
                                           ir_.CreateAdd(begin, k_.i64(atlas::product_block)));
    Values inner = none();
    inner.insert(inner.end(), state.begin() + shape.sums(), state.end());
    inner = emit_loop(
        block, begin, end, k_.i64(step), true, std::move(inner),
        [&](Scope& part, Value* k, Values now) { return add_step(part, k, std::move(now)); });
    block.seek();
    add(inner, state);
    return inner;
  }

  // Adds sums to those of `to`, in its place.
  void add(Values& to, const Values& sums) {
    for (size_t n = 0; n < static_cast<size_t>(shape.sums()); ++n)
      to[n] = emit_arithmetic(k_, ir::Op::add, DType::f32, std::array{sums[n], to[n]});
  }

  Values add_step(Scope& part, Value* k, Values state) {
    tile_.barrier();
    put(part, Values(state.begin() + shape.sums(), state.end()));
    part.seek();
    tile_.barrier();
    Value* next = ir_.CreateBinaryIntrinsic(Intrinsic::smin, last_, ir_.CreateAdd(k, k_.i64(step)));
    const Values pieces = fetch(part, next);
    part.seek();
    sync_warp(ir_);  // fetching may have parted it
    Values out = none();
    multiply(out);
    add(out, state);
    out.insert(out.end(), pieces.begin(), pieces.end());
    return out;
  }

  Values fetch(Scope& at, Value* k) {
    Values out;
    auto take = [&](const Factor& factor, int count, int stride) {
      for (const ProductTile::Piece& p : tile_.fetch(at, factor, k, count, step, stride))
        out.push_back(p.value);
    };
    take(tile_.left(), shape.rows, tile_.left_stride());
    take(tile_.right(), shape.columns, tile_.right_stride());
    return out;
  }

  void put(Scope& at, const Values& pieces) {
    at.seek();
    const auto left = static_cast<int>(pieces_of(shape.rows));
    for (int n = 0; n < static_cast<int>(pieces.size()); ++n) {
      Value* piece = pieces[static_cast<size_t>(n)];
      if (n < left)
        put_terms(piece, tile_.place_of(tile_.left(), n, shape.rows, step, tile_.left_stride()), 0);
      else
        put_terms(
            piece,
            tile_.place_of(tile_.right(), n - left, shape.columns, step, tile_.right_stride()),
            terms * plane);
    }
  }

  // The terms of eight numbers to the planes from element `first` on.
  void put_terms(Value* numbers, Value* place, int first) {
    Values rest;
    for (uint64_t e = 0; e < ProductTile::lanes; ++e)
      rest.push_back(ir_.CreateExtractElement(numbers, e));
    for (int term = 0; term < terms; ++term) {
      Value* all = llvm::PoisonValue::get(llvm::FixedVectorType::get(ir_.getInt32Ty(), 4));
      for (size_t e = 0; e < rest.size(); e += 2) {
        Value* two = round_pair(k_, DType::bf16, rest[e], rest[e + 1]);
        all = ir_.CreateInsertElement(all, two, e / 2);
        if (term + 1 == terms) continue;
        auto subtract = [&](Value*& from, Value* bits) {  // exactly
          Value* x = ir_.CreateBitCast(bits, ir_.getFloatTy());
          from = emit_arithmetic(k_, ir::Op::sub, DType::f32, std::array{from, x});
        };
        subtract(rest[e], ir_.CreateShl(two, 16));
        subtract(rest[e + 1], ir_.CreateAnd(two, ir_.getInt32(0xffff0000u)));
      }
      Value* to = ir_.CreateAdd(place, number(first + term * plane));
      ir_.CreateAlignedStore(all, ir_.CreateGEP(ir_.getInt16Ty(), memory_, to), llvm::Align(16));
    }
  }

  // The six products of a step. What is read of the largest terms stays in registers.
  void multiply(Values& sums) {
    using Registers = TensorTile::Registers;
    auto left = [&](int term, int k) { return tile_.load_left(memory_, number(term * plane), k); };
    auto right = [&](int term, int k) {
      return tile_.load_right(memory_, number((terms + term) * plane), k);
    };
    auto by = [&](const Registers& x, const Registers& y) {
      tile_.multiply(DType::bf16, x, y, sums.data());
    };
    std::vector<Registers> x, y;
    for (int k = 0; k < step; k += 16) {
      x.push_back(left(high, k)), y.push_back(right(high, k));
      by(left(middle, k), right(middle, k));
      by(left(low, k), y.back());
      by(x.back(), right(low, k));
    }
    for (int k = 0; k < step; k += 16) {
      const auto n = static_cast<size_t>(k / 16);
      by(left(middle, k), y[n]);
      by(x[n], right(middle, k));
    }
    for (size_t n = 0; n < x.size(); ++n) by(x[n], y[n]);
  }

  // What is not finite comes of infinities, NaN, or of numbers that a term or a sum cannot hold:
  // there the chain of multiply-adds says what it is.
  Value* mend(Scope& point, Value* sum) {
    point.seek();
    Value* size = ir_.CreateAnd(ir_.CreateBitCast(sum, ir_.getInt32Ty()), ir_.getInt32(0x7fffffff));
    Value* finite = ir_.CreateICmpULT(size, ir_.getInt32(0x7f800000));
    Value* depth = ir_.CreateSelect(finite, k_.i64(0), tile_.depth());
    return emit_loop(
        point, k_.i64(0), depth, k_.i64(atlas::product_block), false, {sum},
        [&](Scope& block, Value* begin, const Values& now) -> Values {
          Value* chain = chain_of(block, begin);
          Value* all = emit_arithmetic(k_, ir::Op::add, DType::f32, std::array{now[0], chain});
          Value* first = ir_.CreateICmpEQ(begin, k_.i64(0));
          return {ir_.CreateSelect(first, chain, all)};
        })[0];
  }

  Value* chain_of(Scope& block, Value* begin) {
    Value* end = ir_.CreateBinaryIntrinsic(Intrinsic::smin, tile_.depth(),
                                           ir_.CreateAdd(begin, k_.i64(atlas::product_block)));
    Value* zero = llvm::ConstantFP::get(ir_.getFloatTy(), 0.0);
    Value* out = emit_loop(block, begin, end, k_.i64(1), true, {zero},
                           [&](Scope& one, Value* k, const Values& now) -> Values {
                             one.set_axis(block_.batch_rank + 2, k);
                             Value* x = emit_body(one, block_.lhs).back().v;
                             Value* y = emit_body(one, block_.rhs).back().v;
                             one.seek();
                             return {multiply_add(k_, DType::f32, x, y, now[0])};
                           })[0];
    block.seek();
    return out;
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::ProductBlock& block_;
  TensorTile tile_;
  Value* memory_;          // shared
  Value* last_ = nullptr;  // the last step's k
};

}  // namespace

bool suits_terms(const atlas::ProductBlock& block) {
  return block.operand_type == DType::f32 && block.acc_type == DType::f32 && !block.reproducible;
}

Facts emit_terms(llvm::Module& module, const atlas::Program& program) {
  return emit_tiles(module, program, shape.threads(), shape.rows, shape.columns,
                    [](CudaFunction& k) { TermProduct(k).run(); });
}

}  // namespace hologram::cuda
