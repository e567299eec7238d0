// backend/cpu/function.cpp: what the instruction sets render themselves.
#include "backend/cpu/function.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <numeric>

#include "backend/cpu/exponential.h"
#include "backend/cpu/lookup.h"
#include "backend/cpu/trigonometric.h"

namespace hologram::cpu {
namespace {

namespace Intrinsic = llvm::Intrinsic;

int lanes_of(Value* v) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

// A product of bfloat16 that runs on the instructions for them, or on tiles, takes subnormal
// numbers for 0 anyway, and so does their rounding.
bool flushes_bf16(const CpuFunction& k) {
  const atlas::Program& p = k.program;
  return k.target.bf16_rounding && p.kind() == atlas::BlockKind::product &&
         (k.target.bf16_dots || p.product().terms == 1) &&
         p.product().operand_type == DType::bf16 && p.product().acc_type == DType::f32 &&
         !p.product().reproducible && !k.in_tail();
}

}  // namespace

bool renders(const Target& target, hologram::ir::Op op, DType type) {
  if (!target.fma) return false;
  return (op == hologram::ir::Op::exp && type == DType::f32) || is_trigonometric(op);
}

Value* CpuFunction::render(hologram::ir::Op op, Value* x, bool bounded) {
  if (op == hologram::ir::Op::exp) return emit_exp(*this, x, bounded);
  return is_trigonometric(op) ? emit_trigonometric(*this, op, x) : nullptr;
}

Value* CpuFunction::round_to_bf16(Value* x) {
  int lanes = lanes_of(x);
  if (lanes < 16 || !flushes_bf16(*this)) return nullptr;
  auto part = [&](int first) {
    std::vector<int> chosen;
    for (int l = 0; l < 16; ++l) chosen.push_back(first + l);
    return lanes == 16 ? x : ir.CreateShuffleVector(x, chosen);
  };
  std::vector<Value*> parts;
  if (lanes == 16)
    parts.push_back(ir.CreateIntrinsic(Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {x}));
  for (int l = 0; l + 32 <= lanes; l += 32)
    parts.push_back(ir.CreateIntrinsic(Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {},
                                       {part(l + 16), part(l)}));
  return ir.CreateBitCast(llvm::concatenateVectors(ir, parts), lane_type(DType::bf16, lanes));
}

Value* CpuFunction::truncate(Value* x, int bits) {
  if (target.isa != Isa::avx2 && target.isa != Isa::avx512) return nullptr;
  const int lanes = lanes_of(x);
  const bool single = x->getType()->getScalarType()->isFloatTy();
  if (!x->getType()->isVectorTy()) {
    auto* wide = llvm::FixedVectorType::get(x->getType(), single ? 4 : 2);
    x = ir.CreateInsertElement(llvm::Constant::getNullValue(wide), x, uint64_t{0});
    auto id = bits == 32 ? single ? Intrinsic::x86_sse_cvttss2si : Intrinsic::x86_sse2_cvttsd2si
              : single   ? Intrinsic::x86_sse_cvttss2si64
                         : Intrinsic::x86_sse2_cvttsd2si64;
    return ir.CreateIntrinsic(id, {}, {x});
  }
  if (bits == 64 && target.isa == Isa::avx2) {  // which converts no vectors to 64 bits
    Value* all = llvm::PoisonValue::get(lane_type(DType::i64, lanes));
    for (uint64_t l = 0; l < static_cast<uint64_t>(lanes); ++l)
      all = ir.CreateInsertElement(all, truncate(ir.CreateExtractElement(x, l), bits), l);
    return all;
  }
  // kernels for tiles count in 16 lanes, whichever instructions they may use beside them
  const int bytes = target.isa == Isa::avx2 ? 32 : 64,
            whole = std::min(lanes, bytes / (single ? 4 : 8));
  if (bits != 32 || whole < 4 || lanes % whole != 0) return nullptr;
  auto cut = [&](Value* part) -> Value* {
    if (whole == 4 && single) return ir.CreateIntrinsic(Intrinsic::x86_sse2_cvttps2dq, {}, {part});
    if (whole == 4) return ir.CreateIntrinsic(Intrinsic::x86_avx_cvtt_pd2dq_256, {}, {part});
    if (whole == 8 && single)
      return ir.CreateIntrinsic(Intrinsic::x86_avx_cvtt_ps2dq_256, {}, {part});
    constexpr uint32_t usual_rounding = 4;
    return ir.CreateIntrinsic(
        single ? Intrinsic::x86_avx512_mask_cvttps2dq_512
               : Intrinsic::x86_avx512_mask_cvttpd2dq_512,
        {},
        {part, llvm::Constant::getNullValue(lane_type(DType::i32, whole)),
         llvm::ConstantInt::getSigned(ir.getIntNTy(static_cast<unsigned>(whole)), -1),
         ir.getInt32(usual_rounding)});
  };
  std::vector<Value*> parts;
  for (int first = 0; first < lanes; first += whole) {
    std::vector<int> chosen(static_cast<size_t>(whole));
    std::iota(chosen.begin(), chosen.end(), first);
    parts.push_back(cut(lanes == whole ? x : ir.CreateShuffleVector(x, chosen)));
  }
  return llvm::concatenateVectors(ir, parts);
}

Value* CpuFunction::larger_number(bool larger, Value* x, Value* y) {
  const int lanes = lanes_of(x);
  const bool single = x->getType()->getScalarType()->isFloatTy();
  const int bytes = lanes * (single ? 4 : 8);
  if (target.isa != Isa::avx512 || (bytes != 16 && bytes != 32 && bytes != 64)) return nullptr;
  auto id = bytes == 64   ? single ? Intrinsic::x86_avx512_mask_range_ps_512
                                   : Intrinsic::x86_avx512_mask_range_pd_512
            : bytes == 32 ? single ? Intrinsic::x86_avx512_mask_range_ps_256
                                   : Intrinsic::x86_avx512_mask_range_pd_256
            : single      ? Intrinsic::x86_avx512_mask_range_ps_128
                          : Intrinsic::x86_avx512_mask_range_pd_128;
  // Larger or smaller of the two, with the sign that was compared.
  std::vector<Value*> operands = {
      x, y, ir.getInt32(larger ? 5 : 4), llvm::Constant::getNullValue(x->getType()),
      llvm::ConstantInt::getSigned(ir.getIntNTy(static_cast<unsigned>(std::max(8, lanes))), -1)};
  if (bytes == 64) operands.push_back(ir.getInt32(4));
  return ir.CreateIntrinsic(id, {}, operands);
}

Value* CpuFunction::extremum(bool larger, Value* x, Value* y) {
  // With a constant LLVM has less to do.
  if (llvm::isa<llvm::Constant>(x) || llvm::isa<llvm::Constant>(y)) return nullptr;
  const int lanes = lanes_of(x), size = x->getType()->getScalarType()->isFloatTy() ? 4 : 8,
            whole = std::min(lanes, target.vector_bytes / size);
  if (lanes % whole != 0) return nullptr;
  std::vector<Value*> parts;
  for (int first = 0; first < lanes; first += whole) {
    std::vector<int> chosen(static_cast<size_t>(whole));
    std::iota(chosen.begin(), chosen.end(), first);
    auto part = [&](Value* v) { return lanes == whole ? v : ir.CreateShuffleVector(v, chosen); };
    Value *a = part(x), *b = part(y), *number = larger_number(larger, a, b);
    if (!number) return nullptr;
    parts.push_back(ir.CreateSelect(ir.CreateFCmpUNO(a, b), ir.CreateFAdd(a, b), number));
  }
  return llvm::concatenateVectors(ir, parts);
}

Value* CpuFunction::look_up(DType type, std::span<const uint64_t> table, Value* index) {
  return emit_lookup(*this, type, table, index);
}

}  // namespace hologram::cpu
