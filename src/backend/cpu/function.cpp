// backend/cpu/function.cpp: what the instruction sets render themselves.
#include "backend/cpu/function.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "backend/cpu/exponential.h"
#include "backend/cpu/lookup.h"

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

Value* CpuFunction::render(hologram::ir::Op op, Value* x, bool bounded) {
  return op == hologram::ir::Op::exp ? emit_exp(*this, x, bounded) : nullptr;
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

Value* CpuFunction::look_up(DType type, std::span<const uint64_t> table, Value* index) {
  return emit_lookup(*this, type, table, index);
}

}  // namespace hologram::cpu
