// backend/cuda/products/terms.cpp: float32 products by mma.m16n8k16.
//
// A number is high + middle + low, three bfloat16 numbers that hold its 24 bits. Of the nine
// products of terms the six largest are taken, the small ones first, for 32 values of k into sums
// that begin at zero. Where fewer bits are asked for, a number is high + middle, of whose products
// three are taken, or high alone. Tensor cores cut sums towards zero; so these are added to the
// sums of 384 values of k, and those to the result, by additions that round to nearest.
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

class TermProduct {
 public:
  static constexpr TensorTile::Shape shape{.rows = 64,
                                           .columns = 64,
                                           .down = 2,
                                           .across = 2,
                                           .step = 32,
                                           .unit = atlas::product_block,
                                           .ctas = 256,
                                           .mends = true};

  explicit TermProduct(CudaFunction& k)
      : k_(k),
        ir_(k.ir),
        terms_(terms_of(k.program.product())),
        tile_(k, shape),
        // Terms of the left factor, terms of the right one.
        memory_(k.shared(ir_.getInt16Ty(), 2 * terms_ * plane, "factors")) {}

  void run() {
    Scope& scope = tile_.scope();
    scope.seek();
    Value *begin = tile_.begin(), *end = tile_.end();
    last_ = ir_.CreateAnd(ir_.CreateSub(end, k_.i64(1)), k_.i64(-step));
    auto* eight = llvm::FixedVectorType::get(ir_.getFloatTy(), ProductTile::lanes);
    Values pieces(pieces_of(shape.rows) + pieces_of(shape.columns),
                  llvm::Constant::getNullValue(eight));
    Value* first = ir_.CreateBinaryIntrinsic(Intrinsic::smin, end, ir_.CreateAdd(begin, k_.i64(1)));
    pieces = emit_loop(scope, begin, first, k_.i64(1), false, std::move(pieces),
                       [&](Scope& some, Value* k, const Values&) { return fetch(some, k); });
    Values state = none();
    state.insert(state.end(), pieces.begin(), pieces.end());
    state = emit_loop(
        scope, begin, end, k_.i64(atlas::product_block), false, std::move(state),
        [&](Scope& block, Value* k, Values now) { return add_block(block, k, std::move(now)); });
    state.resize(shape.sums());
    tile_.finish_sums(state, memory_);
  }

 private:
  static constexpr int step = shape.step, plane = shape.elements(64);
  static_assert(atlas::product_block % step == 0);
  static_assert(shape.slice() * shape.slice_stride() * 2 <= 2 * plane);

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
            terms_ * plane);
    }
  }

  // The terms of eight numbers to the planes from element `first` on.
  void put_terms(Value* numbers, Value* place, int first) {
    for (const Values& registers : take_terms(k_, numbers, terms_)) {
      Value* all = llvm::PoisonValue::get(llvm::FixedVectorType::get(ir_.getInt32Ty(), 4));
      for (uint64_t n = 0; n < 4; ++n) all = ir_.CreateInsertElement(all, registers[n], n);
      Value* to = ir_.CreateAdd(place, number(first));
      ir_.CreateAlignedStore(all, ir_.CreateGEP(ir_.getInt16Ty(), memory_, to), llvm::Align(16));
      first += plane;
    }
  }

  void multiply(Values& sums) {
    for (const TermPair& p : pairs_of(terms_))
      for (int k = 0; k < step; k += 16) {
        auto base = [&](int first, size_t term) {
          return number((first + static_cast<int>(term)) * plane);
        };
        tile_.multiply(DType::bf16, tile_.load_left(memory_, base(0, p.left), k),
                       tile_.load_right(memory_, base(terms_, p.right), k), sums.data());
      }
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  int terms_;
  TensorTile tile_;
  Value* memory_;          // shared
  Value* last_ = nullptr;  // the last step's k
};

}  // namespace

bool suits_terms(const atlas::ProductBlock& block) {
  return block.operand_type == DType::f32 && block.acc_type == DType::f32 && !block.reproducible;
}

int terms_of(const atlas::ProductBlock& block) { return term_count - block.precision; }

std::span<const TermPair> pairs_of(int terms) {
  return std::span(term_pairs).last(static_cast<size_t>(terms * (terms + 1) / 2));
}

std::vector<std::vector<Value*>> take_terms(CudaFunction& k, Value* numbers, int terms) {
  llvm::IRBuilder<>& ir = k.ir;
  std::vector<Value*> rest;
  for (uint64_t n = 0; n < ProductTile::lanes; ++n)
    rest.push_back(ir.CreateExtractElement(numbers, n));
  std::vector<std::vector<Value*>> out(static_cast<size_t>(terms));
  auto subtract = [&](Value*& from, Value* bits) {  // exactly
    Value* x = ir.CreateBitCast(bits, ir.getFloatTy());
    from = emit_arithmetic(k, ir::Op::sub, DType::f32, std::array{from, x});
  };
  for (std::vector<Value*>& registers : out)
    for (size_t n = 0; n < rest.size(); n += 2) {
      Value* two = round_pair(k, DType::bf16, rest[n], rest[n + 1]);
      registers.push_back(two);
      subtract(rest[n], ir.CreateShl(two, 16));
      subtract(rest[n + 1], ir.CreateAnd(two, ir.getInt32(0xffff0000u)));
    }
  return out;
}

Tiling terms_tiling() { return TermProduct::shape.tiling(); }

Facts emit_terms(llvm::Module& module, const atlas::Program& program) {
  return emit_tiles(module, program, terms_tiling(), [](CudaFunction& k) { TermProduct(k).run(); });
}

}  // namespace hologram::cuda
