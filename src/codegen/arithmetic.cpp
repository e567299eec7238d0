// codegen/arithmetic.cpp: element-wise arithmetic on scalars and vectors.
#include <llvm/IR/Intrinsics.h>

#include "base/error.h"
#include "codegen/body.h"
#include "codegen/soft.h"

namespace hologram::codegen {
namespace {

using ir::Op;
namespace Intrinsic = llvm::Intrinsic;

Value* zero_of(Value* x) { return llvm::Constant::getNullValue(x->getType()); }

llvm::Constant* number(Value* like, double value) {
  return llvm::ConstantFP::get(like->getType(), value);
}

llvm::Constant* integer(llvm::Type* type, uint64_t value) {
  return llvm::ConstantInt::get(type, value);
}

unsigned width_of(Value* x) { return x->getType()->getScalarSizeInBits(); }

Value* is_nan(Function& k, Value* x) { return k.ir.CreateFCmpUNO(x, x); }

// The integer type with the shape and width of a float's.
llvm::Type* bits_type(Function& k, Value* x) {
  llvm::Type* t = k.ir.getIntNTy(width_of(x));
  if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(x->getType()))
    return llvm::FixedVectorType::get(t, v->getNumElements());
  return t;
}

// The neighbour of x towards y.
Value* next_after(Function& k, Value* x, Value* y) {
  auto& ir = k.ir;
  llvm::Type* type = bits_type(k, x);
  Value *bx = ir.CreateBitCast(x, type), *by = ir.CreateBitCast(y, type);
  Value *zero = number(x, 0), *one = integer(type, 1);
  Value* top = integer(type, uint64_t{1} << (width_of(x) - 1));
  Value* away = ir.CreateXor(ir.CreateFCmpOLT(x, y), ir.CreateFCmpOLT(x, zero));
  Value* next = ir.CreateSelect(away, ir.CreateAdd(bx, one), ir.CreateSub(bx, one));
  next = ir.CreateSelect(ir.CreateFCmpOEQ(x, zero), ir.CreateOr(ir.CreateAnd(by, top), one), next);
  next = ir.CreateSelect(ir.CreateFCmpOEQ(x, y), by, next);
  Value* r = ir.CreateSelect(is_nan(k, y), y, ir.CreateBitCast(next, x->getType()));
  return ir.CreateSelect(is_nan(k, x), x, r);
}

Value* float_sign(Function& k, Value* x) {
  auto& ir = k.ir;
  Value* zero = number(x, 0);
  Value* negative = ir.CreateSelect(ir.CreateFCmpOLT(x, zero), number(x, -1), zero);
  return ir.CreateSelect(ir.CreateFCmpOGT(x, zero), number(x, 1), negative);
}

// Fused multiply-add: an instruction where the target has one.
Value* float_fma(Function& k, Value* x, Value* y, Value* z) {
  if (k.traits.fma) return k.ir.CreateIntrinsic(Intrinsic::fma, {x->getType()}, {x, y, z});
  return width_of(x) == 32 ? soft_fma_f32(k, x, y, z, !k.rounds_twice) : soft_fma_f64(k, x, y, z);
}

// The maximum of x and +0 by an instruction that gives its second operand for NaN and for equal
// ones; the addition makes -0 the 0 that it should be.
Value* rectified(Function& k, Value* x, Value* zero) {
  Value* r = k.ir.CreateSelect(k.ir.CreateFCmpOGT(zero, x), zero, x);
  return k.ir.CreateFAdd(r, zero);
}

bool is_zero(Value* x) {
  auto* c = llvm::dyn_cast<llvm::Constant>(x);
  return c && c->isNullValue();
}

Value* float_op(Function& k, Op op, std::span<Value* const> a) {
  auto& ir = k.ir;
  auto unary = [&](Intrinsic::ID id) { return ir.CreateUnaryIntrinsic(id, a[0]); };
  switch (op) {
    case Op::neg:
      return ir.CreateFNeg(a[0]);
    case Op::abs:
      return unary(Intrinsic::fabs);
    case Op::sign:
      return float_sign(k, a[0]);
    case Op::floor:
      return unary(Intrinsic::floor);
    case Op::ceil:
      return unary(Intrinsic::ceil);
    case Op::trunc:
      return unary(Intrinsic::trunc);
    case Op::round:
      return unary(Intrinsic::roundeven);
    case Op::sqrt:
      return unary(Intrinsic::sqrt);
    case Op::add:
      return ir.CreateFAdd(a[0], a[1]);
    case Op::sub:
      return ir.CreateFSub(a[0], a[1]);
    case Op::mul:
      return ir.CreateFMul(a[0], a[1]);
    case Op::div:
      return ir.CreateFDiv(a[0], a[1]);
    case Op::rem:
      return soft_fmod(k, a[0], a[1]);
    case Op::min:
    case Op::max:
      if (op == Op::max && k.traits.max_gives_second && (is_zero(a[0]) || is_zero(a[1])))
        return rectified(k, a[is_zero(a[0]) ? 1 : 0], a[is_zero(a[0]) ? 0 : 1]);
      if (Value* own = k.extremum(op == Op::max, a[0], a[1])) return own;
      return ir.CreateBinaryIntrinsic(op == Op::max ? Intrinsic::maximum : Intrinsic::minimum, a[0],
                                      a[1]);
    case Op::minnum:
    case Op::maxnum: {
      Value* r = ir.CreateBinaryIntrinsic(
          op == Op::minnum ? Intrinsic::minimum : Intrinsic::maximum, a[0], a[1]);
      r = ir.CreateSelect(is_nan(k, a[1]), a[0], r);
      return ir.CreateSelect(is_nan(k, a[0]), a[1], r);
    }
    case Op::copysign:
      return ir.CreateBinaryIntrinsic(Intrinsic::copysign, a[0], a[1]);
    case Op::nextafter:
      return next_after(k, a[0], a[1]);
    case Op::eq:
      return ir.CreateFCmpOEQ(a[0], a[1]);
    case Op::ne:
      return ir.CreateFCmpUNE(a[0], a[1]);
    case Op::lt:
      return ir.CreateFCmpOLT(a[0], a[1]);
    case Op::le:
      return ir.CreateFCmpOLE(a[0], a[1]);
    case Op::fma:
      return float_fma(k, a[0], a[1], a[2]);
    default:
      if (Value* own = k.render(op, a[0], false)) return own;
      fail(ErrorCode::internal, "codegen: {} is not defined on floats", name_of(op));
  }
}

// Quotient of operands whose divisor is neither 0 nor −1 (signed).
Value* quotient(Function& k, Value* x, Value* y, bool is_signed) {
  auto& ir = k.ir;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  bool constant = llvm::isa<llvm::Constant>(y);
  if (!vector || width_of(x) > 32 || constant)
    return is_signed ? ir.CreateSDiv(x, y) : ir.CreateUDiv(x, y);
  // Up to 32 bits the double quotient never rounds up to an integer, and no target divides vectors
  // of integers.
  llvm::Type* wide = x->getType()->getWithNewBitWidth(width_of(x) < 32 ? 32 : 64);
  llvm::Type* real = llvm::FixedVectorType::get(ir.getDoubleTy(), vector->getNumElements());
  auto as_real = [&](Value* v) {
    if (is_signed) return ir.CreateSIToFP(v, real);
    return width_of(v) < 32 ? ir.CreateSIToFP(ir.CreateZExt(v, wide), real)
                            : ir.CreateUIToFP(v, real);
  };
  Value* ratio = ir.CreateFDiv(as_real(x), as_real(y));
  if (is_signed && width_of(x) == 32) return ir.CreateFPToSI(ratio, x->getType());
  if (width_of(x) == 32) return ir.CreateFPToUI(ratio, x->getType());
  return ir.CreateTrunc(ir.CreateFPToSI(ratio, wide), x->getType());
}

Value* divide(Function& k, Op op, Value* x, Value* y, bool is_signed, Value* mask) {
  auto& ir = k.ir;
  Value *zero = zero_of(x), *one = integer(x->getType(), 1);
  Value* by_zero = ir.CreateICmpEQ(y, zero);
  if (!llvm::isa<llvm::Constant>(by_zero))
    k.flag_error(mask ? ir.CreateAnd(by_zero, mask) : by_zero, atlas::integer_division_by_zero);
  else if (!llvm::cast<llvm::Constant>(by_zero)->isNullValue())
    k.flag_error(mask ? mask : by_zero, atlas::integer_division_by_zero);
  Value* unsafe = by_zero;
  Value* by_minus_one = nullptr;
  if (is_signed) {
    by_minus_one = ir.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(y->getType()));
    unsafe = ir.CreateOr(by_zero, by_minus_one);
  }
  Value* divisor = ir.CreateSelect(unsafe, one, y);
  Value* q = quotient(k, x, divisor, is_signed);
  Value* r = op == Op::div ? q : ir.CreateSub(x, ir.CreateMul(q, divisor));
  if (is_signed) r = ir.CreateSelect(by_minus_one, op == Op::div ? ir.CreateNeg(x) : zero, r);
  return ir.CreateSelect(by_zero, zero, r);
}

Value* shift(Function& k, Op op, Value* x, Value* y, bool is_signed) {
  auto& ir = k.ir;
  llvm::Constant* last = integer(x->getType(), width_of(x) - 1);
  Value* inside = ir.CreateICmpULE(y, last);
  if (op == Op::shr && is_signed) return ir.CreateAShr(x, ir.CreateSelect(inside, y, last));
  Value* by = ir.CreateSelect(inside, y, zero_of(y));
  return ir.CreateSelect(inside, op == Op::shl ? ir.CreateShl(x, by) : ir.CreateLShr(x, by),
                         zero_of(x));
}

Value* integer_sign(Function& k, Value* x, bool is_signed) {
  auto& ir = k.ir;
  Value* positive = ir.CreateZExt(
      is_signed ? ir.CreateICmpSGT(x, zero_of(x)) : ir.CreateICmpNE(x, zero_of(x)), x->getType());
  return is_signed ? ir.CreateOr(positive, ir.CreateAShr(x, integer(x->getType(), width_of(x) - 1)))
                   : positive;
}

Value* integer_op(Function& k, Op op, DType type, std::span<Value* const> a, Value* mask) {
  auto& ir = k.ir;
  bool is_signed = is_signed_int(type), truth = type == DType::b8;
  switch (op) {
    case Op::neg:
      return ir.CreateNeg(a[0]);
    case Op::abs:
      return is_signed
                 ? ir.CreateIntrinsic(Intrinsic::abs, {a[0]->getType()}, {a[0], ir.getFalse()})
                 : a[0];
    case Op::sign:
      return integer_sign(k, a[0], is_signed);
    case Op::bit_not:
      return ir.CreateNot(a[0]);
    case Op::add:
      return truth ? ir.CreateOr(a[0], a[1]) : ir.CreateAdd(a[0], a[1]);
    case Op::sub:
      return ir.CreateSub(a[0], a[1]);
    case Op::mul:
      return truth ? ir.CreateAnd(a[0], a[1]) : ir.CreateMul(a[0], a[1]);
    case Op::div:
    case Op::rem:
      return divide(k, op, a[0], a[1], is_signed, mask);
    case Op::min:
    case Op::minnum:
      if (truth) return ir.CreateAnd(a[0], a[1]);
      return ir.CreateBinaryIntrinsic(is_signed ? Intrinsic::smin : Intrinsic::umin, a[0], a[1]);
    case Op::max:
    case Op::maxnum:
      if (truth) return ir.CreateOr(a[0], a[1]);
      return ir.CreateBinaryIntrinsic(is_signed ? Intrinsic::smax : Intrinsic::umax, a[0], a[1]);
    case Op::bit_and:
      return ir.CreateAnd(a[0], a[1]);
    case Op::bit_or:
      return ir.CreateOr(a[0], a[1]);
    case Op::bit_xor:
      return ir.CreateXor(a[0], a[1]);
    case Op::shl:
    case Op::shr:
      return shift(k, op, a[0], a[1], is_signed);
    case Op::eq:
      return ir.CreateICmpEQ(a[0], a[1]);
    case Op::ne:
      return ir.CreateICmpNE(a[0], a[1]);
    case Op::lt:
      return is_signed ? ir.CreateICmpSLT(a[0], a[1]) : ir.CreateICmpULT(a[0], a[1]);
    case Op::le:
      return is_signed ? ir.CreateICmpSLE(a[0], a[1]) : ir.CreateICmpULE(a[0], a[1]);
    default:
      fail(ErrorCode::internal, "codegen: {} is not defined on integers", name_of(op));
  }
}

}  // namespace

Value* emit_arithmetic(Function& k, Op op, DType type, std::span<Value* const> args, Value* mask) {
  if (op == Op::select) return k.ir.CreateSelect(args[0], args[1], args[2]);
  if (compute_type(type) != type) {
    std::vector<Value*> wide;
    for (Value* a : args) wide.push_back(emit_cast(k, Op::cast, a, type, DType::f32));
    Value* r = float_op(k, op, wide);
    return ir::info(op).kind == ir::OpKind::compare ? r
                                                    : emit_cast(k, Op::cast, r, DType::f32, type);
  }
  return is_float(type) ? float_op(k, op, args) : integer_op(k, op, type, args, mask);
}

Value* multiply_add(Function& k, DType type, Value* x, Value* y, Value* z) {
  if (!is_float(type)) return k.ir.CreateAdd(k.ir.CreateMul(x, y), z);
  if (type == DType::f32 && k.rounds_twice && !k.traits.fma)
    return k.ir.CreateFAdd(k.ir.CreateFMul(x, y), z);
  return emit_arithmetic(k, Op::fma, type, std::array{x, y, z});
}

Value* combine(Function& k, Op reduce, DType type, Value* x, Value* y) {
  Op op = reduce == Op::reduce_sum    ? Op::add
          : reduce == Op::reduce_prod ? Op::mul
          : reduce == Op::reduce_max  ? Op::max
                                      : Op::min;
  return emit_arithmetic(k, op, type, std::array{x, y});
}

}  // namespace hologram::codegen
