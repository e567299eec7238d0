// backend/cuda/products/thin.cpp: products of up to 16 rows by mma.m16n8k16, without shared memory
// for the factors.
//
// Of 32 values of k, four lanes of a warp read eight each, 16 or 32 bytes, of a column; so they do
// of the rows. Two products take them: which k a register stands for does not matter while both
// factors agree.
#include "backend/cuda/products/thin.h"

#include "atlas/order.h"
#include "backend/cuda/matrices.h"
#include "backend/cuda/products/terms.h"
#include "backend/cuda/products/tile.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

bool is_single(const atlas::ProductBlock& block) { return block.operand_type == DType::f32; }

class ThinProduct {
 public:
  static constexpr int rows = most_thin_rows, groups = 2, threads = 128;  // groups of eight columns
  static constexpr int warp_columns = 8 * groups, columns = threads / 32 * warp_columns;
  static constexpr int step = 32, sums_of_lane = 4 * groups;

  static Tiling tiling_of(const atlas::ProductBlock& block) {
    const bool single = is_single(block);
    return {rows, columns, threads, single ? static_cast<int>(atlas::product_block) : 256,
            256,  single};
  }

  explicit ThinProduct(CudaFunction& k)
      : k_(k),
        ir_(k.ir),
        single_(is_single(k.program.product())),
        tile_(k, tiling_of(k.program.product())) {
    tile_.read_along_depth();
  }

  void run() {
    k_.fit(4);  // with up to 128 registers a thread
    Scope& scope = tile_.scope();
    scope.seek();
    memory_ = k_.shared(ir_.getFloatTy(), rows * stride, "sums");
    Value* lane = ir_.CreateAnd(k_.thread(), 31);
    row_ = ir_.CreateLShr(lane, 2);
    within_ = ir_.CreateAnd(lane, 3);
    warp_ = ir_.CreateMul(ir_.CreateLShr(k_.thread(), 5), number(warp_columns));
    finish(single_ ? add_blocks(scope) : add_steps(scope, tile_.begin(), tile_.end(), false));
  }

 private:
  using Values = std::vector<Value*>;
  static constexpr int stride = columns + 4;

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* wide(Value* n) { return ir_.CreateZExt(n, ir_.getInt64Ty()); }
  Values none() { return Values(sums_of_lane, llvm::ConstantFP::get(ir_.getFloatTy(), 0.0)); }

  void add(Values& to, const Values& sums) {
    for (size_t n = 0; n < sums.size(); ++n)
      to[n] = emit_arithmetic(k_, ir::Op::add, DType::f32, std::array{sums[n], to[n]});
  }

  // Of float32, sums of 384 values of k, which are added up.
  Values add_blocks(Scope& scope) {
    return emit_loop(scope, tile_.begin(), tile_.end(), k_.i64(atlas::product_block), false, none(),
                     [&](Scope& block, Value* begin, const Values& sums) {
                       Value* end = ir_.CreateAdd(begin, k_.i64(atlas::product_block));
                       end = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, tile_.end(), end);
                       Values now = add_steps(block, begin, end, true);
                       block.seek();
                       add(now, sums);
                       return now;
                     });
  }

  Values add_steps(Scope& scope, Value* begin, Value* end, bool nonempty) {
    Values out = emit_loop(scope, begin, end, k_.i64(step), nonempty, none(),
                           [&](Scope& part, Value* k, Values sums) {
                             multiply(part, k, sums);
                             return sums;
                           });
    scope.seek();
    return out;
  }

  // Four registers of each term of eight numbers, from k on by this lane.
  using Terms = std::vector<Values>;
  Terms read(Scope& part, const Factor& factor, Value* x, Value* k) {
    part.seek();
    Value* at = ir_.CreateAdd(k, wide(ir_.CreateMul(within_, number(ProductTile::lanes))));
    Value* all = tile_.eight(part, factor, ir_.CreateAdd(factor.first, wide(x)), at);
    part.seek();
    if (single_) return take_terms(k_, all, terms_of(k_.program.product()));
    all = ir_.CreateBitCast(all, llvm::FixedVectorType::get(ir_.getInt32Ty(), 4));
    Values registers;
    for (uint64_t n = 0; n < 4; ++n) registers.push_back(ir_.CreateExtractElement(all, n));
    return {registers};
  }

  void multiply(Scope& part, Value* k, Values& sums) {
    std::vector<Terms> right;
    for (int g = 0; g < groups; ++g) {
      Value* column = ir_.CreateAdd(ir_.CreateAdd(warp_, number(8 * g)), row_);
      right.push_back(read(part, tile_.right(), column, k));
    }
    const Terms upper = read(part, tile_.left(), row_, k);
    const Terms lower = read(part, tile_.left(), ir_.CreateAdd(row_, number(8)), k);
    sync_warp(ir_);  // reading may have parted it
    Values fresh = single_ ? none() : sums;
    auto product = [&](size_t x, size_t y) {
      for (size_t half = 0; half < 4; half += 2)
        for (size_t g = 0; g < groups; ++g)
          multiply_matrices(
              k_, single_ ? DType::bf16 : tile_.left().type,
              {upper[x][half], lower[x][half], upper[x][half + 1], lower[x][half + 1]},
              {right[g][y][half], right[g][y][half + 1]}, fresh.data() + 4 * g);
    };
    if (!single_) product(0, 0);
    if (single_)
      for (const TermPair& p : pairs_of(terms_of(k_.program.product()))) product(p.left, p.right);
    if (single_) add(fresh, sums);
    sums = fresh;
  }

  void finish(const Values& sums) {
    auto* pair = llvm::FixedVectorType::get(ir_.getFloatTy(), 2);
    for (int g = 0; g < groups; ++g)
      for (int half = 0; half < 2; ++half) {
        const auto first = static_cast<size_t>(4 * g + 2 * half);
        Value* two =
            ir_.CreateInsertElement(llvm::PoisonValue::get(pair), sums[first], uint64_t{0});
        two = ir_.CreateInsertElement(two, sums[first + 1], uint64_t{1});
        Value* at = ir_.CreateMul(ir_.CreateAdd(row_, number(8 * half)), number(stride));
        at = ir_.CreateAdd(ir_.CreateAdd(at, warp_), number(8 * g));
        at = ir_.CreateAdd(at, ir_.CreateShl(within_, 1));
        ir_.CreateAlignedStore(two, ir_.CreateGEP(ir_.getFloatTy(), memory_, at), llvm::Align(8));
      }
    tile_.barrier();
    tile_.finish(memory_, stride, rows, [](Value* row) { return row; });
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  bool single_;  // of float32, by terms
  ProductTile tile_;
  Value* memory_ = nullptr;                                     // shared
  Value *row_ = nullptr, *within_ = nullptr, *warp_ = nullptr;  // i32
};

const Expr& row_extent(const atlas::ProductBlock& block) {
  return block.axes[static_cast<size_t>(block.batch_rank)].extent;
}

bool both_lie_along(const atlas::ProductBlock& block) {
  return lies_along(block.lhs, block.batch_rank + 2) && lies_along(block.rhs, block.batch_rank + 2);
}

Facts emit_named(llvm::Module& module, const atlas::Program& program, const TileNames& names) {
  return emit_tiles(
      module, program, ThinProduct::tiling_of(program.product()),
      [](CudaFunction& k) { ThinProduct(k).run(); }, names);
}

}  // namespace

bool is_thin(const atlas::ProductBlock& block) {
  const Expr& m = row_extent(block);
  return m.is_const() && m.constant_value() <= most_thin_rows && both_lie_along(block);
}

Facts emit_thin_product(llvm::Module& module, const atlas::Program& program) {
  return emit_named(module, program, {});
}

bool may_be_thin(const atlas::ProductBlock& block) {
  return !row_extent(block).is_const() && both_lie_along(block);
}

void add_thin_product(Facts& facts, llvm::Module& module, const atlas::Program& program) {
  const Facts own = emit_named(module, program, {thin_symbol, thin_merge_symbol});
  facts.flags = facts.flags || own.flags;
  facts.thin = ThinFacts{.rows = row_extent(program.product()),
                         .total = own.total,
                         .team_bytes = own.team_bytes,
                         .parts = own.parts,
                         .threads = own.threads,
                         .merges = own.merges};
}

}  // namespace hologram::cuda
