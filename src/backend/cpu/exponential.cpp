// backend/cpu/exponential.cpp: e^x, by AVX-512's scaling instruction where there is one.
//
// It multiplies by a power of two and rounds once, which takes the place of two factors chosen by
// the sign: 17 instructions instead of 25. Elsewhere arguments that are known to be at most 0 take
// 20, as the sign chooses nothing.
#include "backend/cpu/exponential.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "atlas/math/exp.h"
#include "backend/cpu/lane_arithmetic.h"

namespace hologram::cpu {
namespace {

namespace Intrinsic = llvm::Intrinsic;
constexpr int register_lanes = 16;

// y * 2^n rounded once, for whole registers; n integral.
Value* scale_register(CpuFunction& k, Value* y, Value* n) {
  auto& ir = k.ir;
  Value* zero = llvm::Constant::getNullValue(y->getType());
  return ir.CreateIntrinsic(Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                            {y, n, zero, ir.getInt16(0xffff), ir.getInt32(4)});
}

// The same for any number of lanes.
Value* scale(CpuFunction& k, Value* y, Value* n) {
  auto& ir = k.ir;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(y->getType());
  if (!vector) {
    auto* type = llvm::FixedVectorType::get(y->getType(), register_lanes);
    auto first = [&](Value* v) {
      return ir.CreateInsertElement(llvm::Constant::getNullValue(type), v, uint64_t{0});
    };
    return ir.CreateExtractElement(scale_register(k, first(y), first(n)), uint64_t{0});
  }
  int lanes = static_cast<int>(vector->getNumElements());
  if (lanes == register_lanes) return scale_register(k, y, n);
  // Lanes [first, first + count) of v, then zeros up to `length`.
  auto take = [&](Value* v, int first, int count, int length) {
    int own = static_cast<int>(llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements());
    std::vector<int> order;
    for (int l = 0; l < length; ++l) order.push_back(l < count ? first + l : own);
    return ir.CreateShuffleVector(v, llvm::Constant::getNullValue(v->getType()), order);
  };
  if (lanes < register_lanes) {
    Value* r =
        scale_register(k, take(y, 0, lanes, register_lanes), take(n, 0, lanes, register_lanes));
    return take(r, 0, lanes, lanes);
  }
  int half = lanes / 2;
  Value* low = scale(k, take(y, 0, half, half), take(n, 0, half, half));
  Value* high = scale(k, take(y, half, half, half), take(n, half, half, half));
  std::vector<int> both;
  for (int l = 0; l < lanes; ++l) both.push_back(l);
  return ir.CreateShuffleVector(low, high, both);
}

}  // namespace

Value* emit_exp(CpuFunction& k, Value* x, bool bounded) {
  using Lane = atlas::math::Num<LaneArithmetic, float>;
  LaneArithmetic arithmetic(k, x);
  if (k.target.isa != Isa::avx512) return atlas::math::exp(Lane{&arithmetic, x}, bounded).v;
  auto by_power = [&](Lane y, Lane n) { return Lane{&arithmetic, scale(k, y.v, n.v)}; };
  return atlas::math::exp_scaled(Lane{&arithmetic, x}, by_power, bounded).v;
}

Value* emit_brief_exp(CpuFunction& k, Value* x) {
  using Lane = atlas::math::Num<LaneArithmetic, float>;
  LaneArithmetic arithmetic(k, x);
  using Format = atlas::math::Format<float>;
  if (k.target.isa != Isa::avx512) {  // below 2^-126 it is 0: the exponent's field of t = -127
    Lane t = at_least(Lane{&arithmetic, x} * Format::log2e, -127.0f);
    Lane shifted = t + (Format::round_magic + Format::bias);
    Lane y =
        horner(t - (shifted - (Format::round_magic + Format::bias)), atlas::math::table::exp2_bf16);
    llvm::Type* words = x->getType()->getWithNewType(k.ir.getInt32Ty());
    Value* field = k.ir.CreateShl(k.ir.CreateBitCast(shifted.v, words), Format::fraction_bits);
    return k.ir.CreateFMul(y.v, k.ir.CreateBitCast(field, x->getType()));
  }
  // below -200, 2^t is 0 whatever it is
  Lane t = at_least(Lane{&arithmetic, x} * Format::log2e, -200.0f);
  Lane n = round(t);
  Lane y = horner(t - n, atlas::math::table::exp2_bf16);
  return scale(k, y.v, n.v);
}

}  // namespace hologram::cpu
