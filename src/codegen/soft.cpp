// codegen/soft.cpp: fused multiply-add without FMA, and fmod, as integer arithmetic.
#include "codegen/soft.h"

#include <llvm/IR/Intrinsics.h>

#include <string>

namespace hologram::codegen {
namespace {

namespace Intrinsic = llvm::Intrinsic;
using llvm::Type;

// A private function double/float × count → the same type, written by `fill` on first use.
llvm::Function* helper(Function& k, const char* name, Type* type, unsigned count,
                       void (*fill)(Function&, llvm::Function*)) {
  if (llvm::Function* f = k.module.getFunction(name)) return f;
  auto* signature = llvm::FunctionType::get(type, std::vector<Type*>(count, type), false);
  auto* f = llvm::Function::Create(signature, llvm::Function::InternalLinkage, name, k.module);
  f->addFnAttr(llvm::Attribute::NoUnwind);
  f->addFnAttr("target-cpu", k.traits.cpu);
  f->addFnAttr("target-features", k.traits.features);
  f->addFnAttr("no-builtins");
  f->setDoesNotAccessMemory();
  llvm::IRBuilder<>::InsertPointGuard guard(k.ir);
  k.ir.SetInsertPoint(llvm::BasicBlock::Create(k.context, "entry", f));
  fill(k, f);
  return f;
}

// f on every lane.
Value* per_lane(Function& k, llvm::Function* f, std::span<Value* const> args) {
  auto& ir = k.ir;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(args[0]->getType());
  if (!vector) return ir.CreateCall(f, llvm::ArrayRef<Value*>(args.data(), args.size()));
  Value* out = llvm::PoisonValue::get(vector);
  for (unsigned l = 0; l < vector->getNumElements(); ++l) {
    std::vector<Value*> lane;
    for (Value* a : args) lane.push_back(ir.CreateExtractElement(a, l));
    out = ir.CreateInsertElement(out, ir.CreateCall(f, lane), l);
  }
  return out;
}

// A finite nonzero double as sign, integer mantissa in [2^52, 2^53) and exponent: ±mantissa *
// 2^exponent.
struct Parts {
  Value *bits, *negative, *mantissa, *exponent, *special, *zero;
};

Parts take_apart(Function& k, Value* x) {
  auto& ir = k.ir;
  Parts p;
  p.bits = ir.CreateBitCast(x, ir.getInt64Ty());
  p.negative = ir.CreateICmpSLT(p.bits, ir.getInt64(0));
  Value* field = ir.CreateAnd(ir.CreateLShr(p.bits, 52), 0x7ff);
  Value* fraction = ir.CreateAnd(p.bits, (uint64_t{1} << 52) - 1);
  p.special = ir.CreateICmpEQ(field, ir.getInt64(0x7ff));
  Value* subnormal = ir.CreateICmpEQ(field, ir.getInt64(0));
  p.zero = ir.CreateAnd(subnormal, ir.CreateICmpEQ(fraction, ir.getInt64(0)));
  Value* shift = ir.CreateSub(ir.CreateBinaryIntrinsic(Intrinsic::ctlz, fraction, ir.getFalse()),
                              ir.getInt64(11));
  shift =
      ir.CreateSelect(subnormal, ir.CreateSelect(p.zero, ir.getInt64(0), shift), ir.getInt64(0));
  Value* mantissa = ir.CreateOr(fraction, uint64_t{1} << 52);
  p.mantissa = ir.CreateSelect(subnormal, ir.CreateShl(fraction, shift), mantissa);
  Value* lowest = ir.CreateSub(ir.getInt64(1 - 1075), shift);
  p.exponent = ir.CreateSelect(subnormal, lowest, ir.CreateSub(field, ir.getInt64(1075)));
  return p;
}

// x >> by with the lost bits or-ed into the lowest one.
Value* shift_sticky(Function& k, Value* x, Value* by) {
  auto& ir = k.ir;
  Type* wide = x->getType();
  Value* far = ir.CreateICmpUGT(by, ir.getInt64(127));
  Value* amount = ir.CreateZExt(ir.CreateSelect(far, ir.getInt64(127), by), wide);
  Value* kept = ir.CreateLShr(x, amount);
  Value* lost = ir.CreateICmpNE(ir.CreateShl(kept, amount), x);
  return ir.CreateOr(kept, ir.CreateZExt(lost, wide));
}

// ±sum * 2^exponent rounded to a double's bits; sum is nonzero, its lowest bit may be sticky.
Value* round_to_double(Function& k, Value* sum, Value* exponent, Value* negative) {
  auto& ir = k.ir;
  Type* wide = sum->getType();
  Value* leading = ir.CreateTrunc(ir.CreateBinaryIntrinsic(Intrinsic::ctlz, sum, ir.getFalse()),
                                  ir.getInt64Ty());
  Value* top = ir.CreateAdd(ir.CreateSub(ir.getInt64(127), leading), exponent);
  Value* quantum = ir.CreateBinaryIntrinsic(Intrinsic::smax, ir.CreateSub(top, ir.getInt64(52)),
                                            llvm::ConstantInt::getSigned(ir.getInt64Ty(), -1074));
  Value* shift = ir.CreateSub(quantum, exponent);
  Value* right = ir.CreateICmpSGT(shift, ir.getInt64(0));
  Value* by = ir.CreateSelect(right, shift, ir.CreateNeg(shift));
  by = ir.CreateZExt(ir.CreateBinaryIntrinsic(Intrinsic::umin, by, ir.getInt64(127)), wide);
  Value* kept = ir.CreateLShr(sum, by);
  Value* rest = ir.CreateSub(sum, ir.CreateShl(kept, by));
  Value* one = llvm::ConstantInt::get(wide, 1);
  Value* half = ir.CreateLShr(ir.CreateShl(one, by), one);
  Value* odd = ir.CreateTrunc(kept, ir.getInt1Ty());
  Value* up =
      ir.CreateOr(ir.CreateICmpUGT(rest, half), ir.CreateAnd(ir.CreateICmpEQ(rest, half), odd));
  Value* rounded = ir.CreateAdd(kept, ir.CreateZExt(up, wide));
  Value* mantissa =
      ir.CreateTrunc(ir.CreateSelect(right, rounded, ir.CreateShl(sum, by)), ir.getInt64Ty());
  Value* biased = ir.CreateAdd(quantum, ir.getInt64(1074));
  Value* bits = ir.CreateAdd(ir.CreateShl(biased, 52), mantissa);
  Value* infinity = ir.getInt64(uint64_t{0x7ff} << 52);
  Value* overflow =
      ir.CreateOr(ir.CreateICmpSGT(biased, ir.getInt64(0x7ff)), ir.CreateICmpUGT(bits, infinity));
  bits = ir.CreateSelect(overflow, infinity, bits);
  return ir.CreateOr(bits, ir.CreateShl(ir.CreateZExt(negative, ir.getInt64Ty()), 63));
}

// The product is exact in 106 bits; z is aligned to it in 128, with a sticky bit for what falls off
// the smaller one.
void fill_fma(Function& k, llvm::Function* f) {
  auto& ir = k.ir;
  Value *x = f->getArg(0), *y = f->getArg(1), *z = f->getArg(2);
  Parts a = take_apart(k, x), b = take_apart(k, y), c = take_apart(k, z);
  Type* wide = ir.getIntNTy(128);
  Value* product = ir.CreateMul(ir.CreateZExt(a.mantissa, wide), ir.CreateZExt(b.mantissa, wide));
  Value* exponent = ir.CreateAdd(a.exponent, b.exponent);
  Value* mantissa = ir.CreateSelect(c.zero, ir.getInt64(0), c.mantissa);
  Value* distance = ir.CreateSelect(c.zero, ir.getInt64(0), ir.CreateSub(c.exponent, exponent));
  constexpr uint64_t room = 70;
  Value* below = ir.CreateICmpSLT(distance, ir.getInt64(0));
  Value* left =
      ir.CreateSelect(below, ir.getInt64(0),
                      ir.CreateBinaryIntrinsic(Intrinsic::umin, distance, ir.getInt64(room)));
  Value* addend = ir.CreateShl(ir.CreateZExt(mantissa, wide), ir.CreateZExt(left, wide));
  addend = shift_sticky(k, addend, ir.CreateSelect(below, ir.CreateNeg(distance), ir.getInt64(0)));
  Value* beyond = ir.CreateSelect(below, ir.getInt64(0), ir.CreateSub(distance, left));
  product = shift_sticky(k, product, beyond);
  exponent = ir.CreateAdd(exponent, beyond);

  Value* negative = ir.CreateXor(a.negative, b.negative);
  Value* same = ir.CreateICmpEQ(negative, c.negative);
  Value* larger = ir.CreateICmpUGE(product, addend);
  Value* difference =
      ir.CreateSelect(larger, ir.CreateSub(product, addend), ir.CreateSub(addend, product));
  Value* sum = ir.CreateSelect(same, ir.CreateAdd(product, addend), difference);
  negative = ir.CreateSelect(larger, negative, c.negative);
  Value* nothing = ir.CreateICmpEQ(sum, llvm::Constant::getNullValue(wide));
  Value* bits = round_to_double(k, ir.CreateSelect(nothing, llvm::ConstantInt::get(wide, 1), sum),
                                exponent, negative);
  Value* r = ir.CreateBitCast(ir.CreateSelect(nothing, ir.getInt64(0), bits), ir.getDoubleTy());
  r = ir.CreateSelect(c.special, z, r);
  Value* plain = ir.CreateOr(ir.CreateOr(a.special, b.special), ir.CreateOr(a.zero, b.zero));
  ir.CreateRet(ir.CreateSelect(plain, ir.CreateFAdd(ir.CreateFMul(x, y), z), r));
}

// Long division of the mantissas, as many bits a step as fit 64.
void fill_fmod(Function& k, llvm::Function* f) {
  auto& ir = k.ir;
  Value *x = f->getArg(0), *y = f->getArg(1);
  bool single = x->getType()->isFloatTy();
  unsigned width = single ? 32 : 64, fraction_bits = single ? 23 : 52;
  uint64_t fraction_mask = (uint64_t{1} << fraction_bits) - 1, field_mask = single ? 0xff : 0x7ff;
  Type *narrow = ir.getIntNTy(width), *word = ir.getInt64Ty();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(k.context, name, f); };
  llvm::BasicBlock *invalid = block("invalid"), *numbers = block("numbers"),
                   *small = block("small"), *start = block("start"), *loop = block("loop"),
                   *done = block("done");
  Value* sign = ir.CreateAnd(ir.CreateBitCast(x, narrow), uint64_t{1} << (width - 1));
  auto magnitude = [&](Value* v) {
    return ir.CreateZExt(
        ir.CreateAnd(ir.CreateBitCast(v, narrow), (uint64_t{1} << (width - 1)) - 1), word);
  };
  Value *a = magnitude(x), *b = magnitude(y);
  Value* infinity = ir.getInt64(field_mask << fraction_bits);
  Value* bad = ir.CreateOr(ir.CreateICmpUGE(a, infinity), ir.CreateICmpUGT(b, infinity));
  ir.CreateCondBr(ir.CreateOr(bad, ir.CreateICmpEQ(b, ir.getInt64(0))), invalid, numbers);
  ir.SetInsertPoint(invalid);
  Value* product = ir.CreateFMul(x, y);
  ir.CreateRet(ir.CreateFDiv(product, product));
  ir.SetInsertPoint(numbers);
  ir.CreateCondBr(ir.CreateICmpULT(a, b), small, start);
  ir.SetInsertPoint(small);
  ir.CreateRet(x);

  ir.SetInsertPoint(start);
  auto exponent = [&](Value* v) {
    return ir.CreateBinaryIntrinsic(Intrinsic::umax, ir.CreateLShr(v, fraction_bits),
                                    ir.getInt64(1));
  };
  auto mantissa = [&](Value* v) {
    Value* normal = ir.CreateICmpUGT(v, ir.getInt64(fraction_mask));
    Value* implicit = ir.CreateSelect(normal, ir.getInt64(fraction_mask + 1), ir.getInt64(0));
    return ir.CreateOr(ir.CreateAnd(v, fraction_mask), implicit);
  };
  Value *ea = exponent(a), *eb = exponent(b), *mb = mantissa(b);
  Value* first = ir.CreateURem(mantissa(a), mb);
  Value* distance = ir.CreateSub(ea, eb);
  ir.CreateCondBr(ir.CreateICmpEQ(distance, ir.getInt64(0)), done, loop);

  ir.SetInsertPoint(loop);
  llvm::PHINode *rest = ir.CreatePHI(word, 2), *left = ir.CreatePHI(word, 2);
  rest->addIncoming(first, start);
  left->addIncoming(distance, start);
  Value* step = ir.CreateBinaryIntrinsic(Intrinsic::umin, left, ir.getInt64(63 - fraction_bits));
  Value* next = ir.CreateURem(ir.CreateShl(rest, step), mb);
  Value* remaining = ir.CreateSub(left, step);
  rest->addIncoming(next, loop);
  left->addIncoming(remaining, loop);
  ir.CreateCondBr(ir.CreateICmpEQ(remaining, ir.getInt64(0)), done, loop);

  ir.SetInsertPoint(done);
  llvm::PHINode* r = ir.CreatePHI(word, 2);
  r->addIncoming(first, start);
  r->addIncoming(next, loop);
  // r * 2^(eb - bias): normalise, but not below the subnormal grid.
  Value* zeros = ir.CreateBinaryIntrinsic(Intrinsic::ctlz, r, ir.getFalse());
  Value* up = ir.CreateSub(zeros, ir.getInt64(63 - fraction_bits));
  up = ir.CreateBinaryIntrinsic(Intrinsic::umin, up, ir.CreateSub(eb, ir.getInt64(1)));
  Value* m = ir.CreateShl(r, up);
  Value* field = ir.CreateSub(ir.CreateSub(eb, up), ir.getInt64(1));
  Value* bits = ir.CreateAdd(ir.CreateShl(field, fraction_bits), m);
  bits = ir.CreateSelect(ir.CreateICmpEQ(r, ir.getInt64(0)), ir.getInt64(0), bits);
  ir.CreateRet(ir.CreateBitCast(ir.CreateOr(ir.CreateTrunc(bits, narrow), sign), x->getType()));
}

}  // namespace

// The product is exact in double; rounding the sum to odd makes the second rounding harmless (Boldo
// & Melquiond 2008).
Value* soft_fma_f32(Function& k, Value* x, Value* y, Value* z, bool exact) {
  auto& ir = k.ir;
  Type* real = x->getType()->getWithNewType(ir.getDoubleTy());
  Type* bits_type = real->getWithNewType(ir.getInt64Ty());
  Value* product = ir.CreateFMul(ir.CreateFPExt(x, real), ir.CreateFPExt(y, real));
  Value* addend = ir.CreateFPExt(z, real);
  Value* sum = ir.CreateFAdd(product, addend);
  if (!exact) return ir.CreateFPTrunc(sum, x->getType());
  Value* part = ir.CreateFSub(sum, product);
  Value* error =
      ir.CreateFAdd(ir.CreateFSub(product, ir.CreateFSub(sum, part)), ir.CreateFSub(addend, part));
  Value* bits = ir.CreateBitCast(sum, bits_type);
  Value* zero = llvm::Constant::getNullValue(real);
  Value* one = llvm::ConstantInt::get(bits_type, 1);
  Value* away = ir.CreateICmpEQ(ir.CreateFCmpOGT(error, zero), ir.CreateFCmpOGT(sum, zero));
  Value* odd = ir.CreateSelect(away, ir.CreateAdd(bits, one), ir.CreateSub(bits, one));
  Value* even = ir.CreateICmpEQ(ir.CreateAnd(bits, one), llvm::Constant::getNullValue(bits_type));
  Value* fix = ir.CreateAnd(ir.CreateFCmpONE(error, zero), even);
  return ir.CreateFPTrunc(ir.CreateBitCast(ir.CreateSelect(fix, odd, bits), real), x->getType());
}

Value* soft_fma_f64(Function& k, Value* x, Value* y, Value* z) {
  return per_lane(k, helper(k, "soft_fma", k.ir.getDoubleTy(), 3, fill_fma), std::array{x, y, z});
}

namespace {

Value* fmod_by_division(Function& k, Value* x, Value* y) {
  Type* type = x->getType()->getScalarType();
  const char* name = type->isFloatTy() ? "soft_fmod_f32" : "soft_fmod_f64";
  return per_lane(k, helper(k, name, type, 2, fill_fmod), std::array{x, y});
}

// Where every quotient |x| / |y| has fewer bits than a mantissa: rounding takes it past the next
// integer at most, and then what remains, which is exact either way, is negative.
void fill_fmod_of_near(Function& k, llvm::Function* f) {
  auto& ir = k.ir;
  Value *x = f->getArg(0), *y = f->getArg(1);
  Type* type = x->getType();
  bool single = type->getScalarType()->isFloatTy();
  auto* near = llvm::BasicBlock::Create(k.context, "near", f);
  auto* far = llvm::BasicBlock::Create(k.context, "far", f);
  Value* a = ir.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value* b = ir.CreateUnaryIntrinsic(Intrinsic::fabs, y);
  Value* quotient = ir.CreateFDiv(a, b);
  Value* small = ir.CreateFCmpOLT(quotient, llvm::ConstantFP::get(type, single ? 0x1p23 : 0x1p52));
  if (type->isVectorTy()) small = ir.CreateAndReduce(small);
  ir.CreateCondBr(small, near, far);
  ir.SetInsertPoint(near);
  Value* whole = ir.CreateUnaryIntrinsic(Intrinsic::trunc, quotient);
  Value* rest = ir.CreateIntrinsic(Intrinsic::fma, {type}, {ir.CreateFNeg(whole), b, a});
  Value* below = ir.CreateFCmpOLT(rest, llvm::ConstantFP::get(type, 0.0));
  rest = ir.CreateSelect(below, ir.CreateFAdd(rest, b), rest);
  rest = ir.CreateSelect(ir.CreateFCmpOLT(a, b), a, rest);  // b may be infinite
  ir.CreateRet(ir.CreateBinaryIntrinsic(Intrinsic::copysign, rest, x));
  ir.SetInsertPoint(far);
  ir.CreateRet(fmod_by_division(k, x, y));
}

}  // namespace

Value* soft_fmod(Function& k, Value* x, Value* y) {
  if (!k.traits.fma) return fmod_by_division(k, x, y);
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  std::string name = x->getType()->getScalarType()->isFloatTy() ? "fmod_f32" : "fmod_f64";
  if (vector) name += "_" + std::to_string(vector->getNumElements());
  return k.ir.CreateCall(helper(k, name.c_str(), x->getType(), 2, fill_fmod_of_near), {x, y});
}

}  // namespace hologram::codegen
