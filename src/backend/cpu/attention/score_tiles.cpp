// backend/cpu/attention/score_tiles.cpp: what attention and its gradients share on tiles, and of
// products of words of two numbers.
#include <llvm/IR/IntrinsicsX86.h>

#include "backend/cpu/attention/score_blocks.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

constexpr int rounded_lanes = 16;  // of the rounding instructions

}  // namespace

void ScoreBlocks::call_tiles(Scope& scope, int use, TileKernel kernel, Value* count,
                             std::vector<Value*> arguments) {
  const int most = kernel.tiles;
  std::map<int64_t, llvm::Function*> kernels;
  for (int tiles = 1; tiles <= most; ++tiles) {
    llvm::Function*& f = tile_kernels_[{use, tiles}];
    kernel.tiles = tiles;
    if (!f) f = kernel.emit(k_);
    kernels[tiles] = f;
  }
  Value* none = llvm::Constant::getNullValue(k_.ir.getPtrTy());
  arguments.insert(arguments.end(), {none, none});
  Value* tiles = k_.ir.CreateSelect(k_.ir.CreateICmpSGT(count, k_.i64(16)), k_.i64(2), k_.i64(1));
  call_one(scope, tiles, kernels, arguments);
}

void ScoreBlocks::copy_tile_row(Scope& scope, const atlas::Body& body, int axis, Value* columns,
                                Value* base, Value* first) {
  constexpr int lanes = 32;
  for_vectors(scope, columns, lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.set_axis(axis, offset);
    s.set_lanes(axis, lanes, mask);
    Value* x = splat(k_, emit_body(s, body).back(), lanes);
    s.seek();
    if (mask) x = k_.ir.CreateSelect(mask, x, zero(x->getType()));
    Value* to = element(k_, DType::bf16, base, add(first, offset));
    k_.ir.CreateAlignedStore(x, to, llvm::Align(64));
  });
}

Value* ScoreBlocks::interleave(Value* low, Value* high) {
  std::vector<int> order;
  int lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(low->getType())->getNumElements());
  for (int l = 0; l < lanes; ++l) order.insert(order.end(), {l, lanes + l});
  return k_.ir.CreateBitCast(k_.ir.CreateShuffleVector(low, high, order),
                             k_.widen(k_.ir.getInt32Ty(), lanes));
}

Value* ScoreBlocks::rounded(Value* v) {
  if (!k_.target.bf16_rounding) return emit_cast(k_, ir::Op::cast, v, DType::f32, DType::bf16);
  Value* x = k_.ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {v});
  return k_.ir.CreateBitCast(x, k_.widen(k_.ir.getInt16Ty(), rounded_lanes));
}

Value* ScoreBlocks::rounded_words(Value* low, Value* high) {
  if (!k_.target.bf16_rounding) return interleave(rounded(low), rounded(high));
  Value* both =
      k_.ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {}, {high, low});
  std::vector<int> order;
  for (int i = 0; i < rounded_lanes; ++i) order.insert(order.end(), {i, rounded_lanes + i});
  return k_.ir.CreateBitCast(k_.ir.CreateShuffleVector(both, order),
                             k_.widen(k_.ir.getInt32Ty(), rounded_lanes));
}

void ScoreBlocks::store_words(Value* low, Value* high, Value* to) {
  if (!k_.target.bf16_rounding) {
    k_.ir.CreateAlignedStore(interleave(rounded(low), rounded(high)), to, alignment());
    return;
  }
  constexpr int lanes = rounded_lanes;
  for (int l = 0; l < t_.lanes; l += lanes) {
    std::vector<int> part, order;
    for (int i = 0; i < lanes; ++i) part.push_back(l + i);
    for (int i = 0; i < lanes; ++i) order.insert(order.end(), {i, lanes + i});
    auto take = [&](Value* v) { return k_.ir.CreateShuffleVector(v, part); };
    Value* both = k_.ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {},
                                        {take(high), take(low)});
    k_.ir.CreateAlignedStore(k_.ir.CreateShuffleVector(both, order), at(to, k_.i64(l)),
                             alignment());
  }
}

}  // namespace hologram::cpu
