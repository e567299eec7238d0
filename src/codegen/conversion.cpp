// codegen/conversion.cpp: conversions between element types.
#include <llvm/IR/Intrinsics.h>

#include <cmath>

#include "base/error.h"
#include "codegen/body.h"

namespace hologram::codegen {
namespace {

using ir::Op;
namespace Intrinsic = llvm::Intrinsic;

class Converter {
 public:
  Converter(Function& k, Value* like, Known known) : k_(k), ir_(k.ir), known_(known) {
    if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(like->getType()))
      lanes_ = static_cast<int>(v->getNumElements());
  }

  Value* run(Op how, Value* x, DType from, DType to);
  /// Of a f32, whose low half is 0 where it is a bf16.
  Value* high_half(Value* x) {
    x = ir_.CreateBitCast(x, ints(32));
    return alternate() ? pack(x) : ir_.CreateTrunc(ir_.CreateLShr(x, word(16)), ints(16));
  }

 private:
  llvm::Type* type(DType t) const { return k_.lane_type(t, lanes_); }
  llvm::Type* ints(int bits) const {
    return k_.widen(llvm::Type::getIntNTy(k_.context, static_cast<unsigned>(bits)), lanes_);
  }
  llvm::Constant* word(uint64_t value) const { return llvm::ConstantInt::get(ints(32), value); }
  bool has_half() const { return k_.traits.half; }
  bool alternate() const { return k_.alternate() && lanes_ > 1; }
  llvm::Type* pairs() const { return k_.widen(ir_.getInt32Ty(), lanes_ / 2); }

  Value* pack(Value* words);
  Value* unpack(Value* x);

  Value* bf16_to_f32(Value* x);
  Value* f32_to_bf16(Value* x);
  Value* f16_to_f32(Value* x);
  Value* f32_to_f16(Value* x);
  Value* widen_half(Value* x, DType from);
  Value* float_to_float(Value* x, DType from, DType to);
  Value* saturate(Value* x, DType to);
  Value* truncate(Value* x, int bits);
  Value* wrap(Value* x, DType to);
  Value* int_to_int(Value* x, DType from, DType to);

  Function& k_;
  llvm::IRBuilder<>& ir_;
  int lanes_ = 1;
  Known known_;
};

// Where alternate lanes have the elements 0, 1, 2, … of memory: registers of even ones and of odd
// ones by turns.
std::vector<int> alternate_places(const Function& k, int lanes) {
  const int whole = k.traits.vector_bytes / 2, half = whole / 2;
  std::vector<int> places;
  for (int e = 0; e < lanes; ++e)
    places.push_back(e / whole * whole + e % 2 * half + e % whole / 2);
  return places;
}

int count_lanes(Value* x) {
  return static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
}

// The high halves of words in alternate lanes, as memory has them.
Value* Converter::pack(Value* words) {
  const std::vector<int> places = alternate_places(k_, lanes_);
  std::vector<int> even, odd, blend;
  for (int e = 0; e < lanes_; ++e) {
    (e % 2 ? odd : even).push_back(places[static_cast<size_t>(e)]);
    blend.push_back(e % 2 ? lanes_ + e : e);
  }
  Value* low = ir_.CreateLShr(ir_.CreateShuffleVector(words, even), 16);
  Value* high = ir_.CreateShuffleVector(words, odd);
  Value* x = ir_.CreateShuffleVector(ir_.CreateBitCast(low, ints(16)),
                                     ir_.CreateBitCast(high, ints(16)), blend);
  k_.set_words(x, words);
  return x;
}

// The words whose high halves these are, in alternate lanes, with zeros below them.
Value* Converter::unpack(Value* x) {
  constexpr uint64_t high = 0xffff0000;
  if (Value* words = k_.words_of(x)) return ir_.CreateAnd(words, word(high));
  x = ir_.CreateBitCast(x, pairs());
  std::vector<int> order(static_cast<size_t>(lanes_));
  const std::vector<int> places = alternate_places(k_, lanes_);
  for (int e = 0; e < lanes_; ++e)
    order[static_cast<size_t>(places[static_cast<size_t>(e)])] = e / 2 + e % 2 * (lanes_ / 2);
  return ir_.CreateShuffleVector(ir_.CreateShl(x, 16), ir_.CreateAnd(x, high), order);
}

Value* Converter::bf16_to_f32(Value* x) {
  Value* words = alternate() ? unpack(x) : ir_.CreateShl(ir_.CreateZExt(x, ints(32)), word(16));
  return ir_.CreateBitCast(words, type(DType::f32));
}

Value* Converter::f32_to_bf16(Value* x) {
  if (Value* own = k_.round_to_bf16(x)) return own;
  Value* u = ir_.CreateBitCast(x, ints(32));
  Value* odd = ir_.CreateAnd(ir_.CreateLShr(u, word(16)), word(1));
  Value* rounded = ir_.CreateAdd(ir_.CreateAdd(u, word(0x7fff)), odd);
  if (known_ == Known::low_nan) return high_half(rounded);
  Value* nan = llvm::Constant::getAllOnesValue(ints(32));
  return high_half(ir_.CreateSelect(ir_.CreateFCmpUNO(x, x), nan, rounded));
}

Value* Converter::f16_to_f32(Value* x) {
  if (has_half())
    return ir_.CreateFPExt(ir_.CreateBitCast(x, k_.widen(ir_.getHalfTy(), lanes_)),
                           type(DType::f32));
  // Exponent and mantissa moved up and rebased by an exact multiplication; infinities and NaN by
  // their exponent.
  Value* u = ir_.CreateZExt(x, ints(32));
  Value* body = ir_.CreateShl(ir_.CreateAnd(u, word(0x7fff)), word(13));
  Value* scaled = ir_.CreateFMul(ir_.CreateBitCast(body, type(DType::f32)),
                                 llvm::ConstantFP::get(type(DType::f32), std::ldexp(1.0, 112)));
  Value* special = ir_.CreateICmpUGE(body, word(0x0f800000));
  Value* r = ir_.CreateSelect(special, ir_.CreateOr(body, word(0x7f800000)),
                              ir_.CreateBitCast(scaled, ints(32)));
  Value* sign = ir_.CreateShl(ir_.CreateAnd(u, word(0x8000)), word(16));
  return ir_.CreateBitCast(ir_.CreateOr(r, sign), type(DType::f32));
}

Value* Converter::f32_to_f16(Value* x) {
  if (has_half())
    return ir_.CreateBitCast(ir_.CreateFPTrunc(x, k_.widen(ir_.getHalfTy(), lanes_)), ints(16));
  Value* u = ir_.CreateBitCast(x, ints(32));
  Value* sign = ir_.CreateAnd(ir_.CreateLShr(u, word(16)), word(0x8000));
  Value* a = ir_.CreateAnd(u, word(0x7fffffff));
  // Normal results: round the low 13 bits to nearest even, then rebase the exponent.
  Value* odd = ir_.CreateAnd(ir_.CreateLShr(a, word(13)), word(1));
  Value* normal = ir_.CreateAdd(ir_.CreateAdd(a, word(0xfff)), odd);
  normal = ir_.CreateLShr(ir_.CreateSub(normal, word(0x38000000)), word(13));
  // Subnormal results: the addition of 0.5 leaves the rounded multiple of 2^-24 in the low bits.
  Value* half = llvm::ConstantFP::get(type(DType::f32), 0.5);
  Value* tiny =
      ir_.CreateBitCast(ir_.CreateFAdd(ir_.CreateBitCast(a, type(DType::f32)), half), ints(32));
  tiny = ir_.CreateSub(tiny, word(0x3f000000));
  Value* r = ir_.CreateSelect(ir_.CreateICmpULT(a, word(0x38800000)), tiny, normal);
  r = ir_.CreateSelect(ir_.CreateICmpUGE(a, word(0x477ff000)), word(0x7c00), r);
  r = ir_.CreateSelect(ir_.CreateICmpUGT(a, word(0x7f800000)), word(0x7e00), r);
  return ir_.CreateTrunc(ir_.CreateOr(r, sign), ints(16));
}

Value* Converter::widen_half(Value* x, DType from) {
  return from == DType::bf16 ? bf16_to_f32(x) : from == DType::f16 ? f16_to_f32(x) : x;
}

Value* Converter::float_to_float(Value* x, DType from, DType to) {
  x = widen_half(x, from);
  bool wide = from == DType::f64;
  if (to == DType::f64) return wide ? x : ir_.CreateFPExt(x, type(DType::f64));
  if (wide) x = ir_.CreateFPTrunc(x, type(DType::f32));
  return to == DType::bf16 ? f32_to_bf16(x) : to == DType::f16 ? f32_to_f16(x) : x;
}

Value* Converter::saturate(Value* x, DType to) {
  auto id = is_unsigned_int(to) ? Intrinsic::fptoui_sat : Intrinsic::fptosi_sat;
  // Narrow results go through i32, which every target converts to; the clamp to the narrow range is
  // exact.
  int bits = size_of(to) * 8;
  if (bits >= 32) return ir_.CreateIntrinsic(id, {type(to), x->getType()}, {x});
  Value* wide = ir_.CreateIntrinsic(Intrinsic::fptosi_sat, {ints(32), x->getType()}, {x});
  int64_t high = (int64_t{1} << (bits - (is_signed_int(to) ? 1 : 0))) - 1;
  int64_t low = is_signed_int(to) ? -high - 1 : 0;
  wide = ir_.CreateBinaryIntrinsic(Intrinsic::smin, wide,
                                   llvm::ConstantInt::getSigned(ints(32), high));
  wide =
      ir_.CreateBinaryIntrinsic(Intrinsic::smax, wide, llvm::ConstantInt::getSigned(ints(32), low));
  return ir_.CreateTrunc(wide, type(to));
}

// To a signed integer, the least one for NaN and what does not fit.
Value* Converter::truncate(Value* x, int bits) {
  if (Value* own = k_.truncate(x, bits)) return own;
  double limit = std::ldexp(1.0, bits - 1);
  auto real = [&](double v) { return llvm::ConstantFP::get(x->getType(), v); };
  bool exact = x->getType()->getScalarType()->isFloatTy() ||
               bits == 64;  // −limit − 1 is no number of the type
  Value* low = exact ? ir_.CreateFCmpOGE(x, real(-limit)) : ir_.CreateFCmpOGT(x, real(-limit - 1));
  Value* fits = ir_.CreateAnd(low, ir_.CreateFCmpOLT(x, real(limit)));
  Value* r = ir_.CreateFPToSI(ir_.CreateSelect(fits, x, real(0)), ints(bits));
  return ir_.CreateSelect(fits, r, llvm::ConstantInt::get(ints(bits), uint64_t{1} << (bits - 1)));
}

Value* Converter::wrap(Value* x, DType to) {
  if (to == DType::u64) {
    // Above 2^63 the f32 difference is exact, so the width of the float does not matter.
    Value* half = llvm::ConstantFP::get(x->getType(), std::ldexp(1.0, 63));
    Value* large = ir_.CreateFCmpOGE(x, half);
    Value* r = truncate(ir_.CreateSelect(large, ir_.CreateFSub(x, half), x), 64);
    Value* top = ir_.CreateSelect(large, llvm::ConstantInt::get(ints(64), uint64_t{1} << 63),
                                  llvm::Constant::getNullValue(ints(64)));
    return ir_.CreateXor(r, top);
  }
  // Of a float outside 32 bits the low eight are zeros.
  bool fits = to == DType::u8 && x->getType()->getScalarType()->isFloatTy();
  bool wide = to == DType::i64 || to == DType::u32 || (to == DType::u8 && !fits);
  Value* r = truncate(x, wide ? 64 : 32);
  return ir_.CreateTrunc(r, type(to));
}

Value* Converter::int_to_int(Value* x, DType from, DType to) {
  if (is_signed_int(from)) return ir_.CreateSExtOrTrunc(x, type(to));
  return ir_.CreateZExtOrTrunc(x, type(to));
}

Value* Converter::run(Op how, Value* x, DType from, DType to) {
  if (from == to) return x;
  if (how == Op::bitcast)
    return from == DType::b8 ? ir_.CreateZExt(x, type(to)) : ir_.CreateBitCast(x, type(to));
  if (is_float(from)) {
    if (is_float(to)) return float_to_float(x, from, to);
    x = widen_half(x, from);
    if (to == DType::b8) return ir_.CreateFCmpUNE(x, llvm::Constant::getNullValue(x->getType()));
    return how == Op::cast ? saturate(x, to) : wrap(x, to);
  }
  if (to == DType::b8) return ir_.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
  if (!is_float(to)) return int_to_int(x, from, to);
  llvm::Type* real = type(compute_type(to));
  Value* r = is_signed_int(from) ? ir_.CreateSIToFP(x, real) : ir_.CreateUIToFP(x, real);
  return float_to_float(r, compute_type(to), to);
}

}  // namespace

Value* emit_cast(Function& k, Op how, Value* x, DType from, DType to, Known known) {
  Converter c(k, x, known);
  return known == Known::narrow && to == DType::bf16 ? c.high_half(x) : c.run(how, x, from, to);
}

Value* to_alternate(Function& k, Value* x) {
  const std::vector<int> places = alternate_places(k, count_lanes(x));
  std::vector<int> order(places.size());
  for (size_t e = 0; e < places.size(); ++e)
    order[static_cast<size_t>(places[e])] = static_cast<int>(e);
  return k.ir.CreateShuffleVector(x, order);
}

Value* from_alternate(Function& k, Value* x) {
  return k.ir.CreateShuffleVector(x, alternate_places(k, count_lanes(x)));
}

}  // namespace hologram::codegen
