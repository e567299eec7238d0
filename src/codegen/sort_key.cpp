// codegen/sort_key.cpp: keys of sorts as unsigned numbers.
#include "codegen/sort_key.h"

namespace hologram::codegen {

Value* emit_sort_key(Function& k, DType type, bool descending, Value* x) {
  llvm::IRBuilder<>& ir = k.ir;
  const int bits = size_of(type) * 8;
  llvm::Type* number = x->getType()->getWithNewBitWidth(static_cast<unsigned>(bits));
  auto constant = [&](uint64_t v) { return llvm::ConstantInt::get(number, v); };
  const uint64_t sign = uint64_t{1} << (bits - 1), ones = ~uint64_t{0} >> (64 - bits);
  Value* v;
  if (is_float(type)) {
    Value* zero = llvm::Constant::getNullValue(x->getType());
    Value *nan = ir.CreateFCmpUNO(x, x), *is_zero = ir.CreateFCmpOEQ(x, zero);
    v = ir.CreateSelect(is_zero, constant(0), ir.CreateBitCast(x, number));
    Value* negative = ir.CreateAShr(v, constant(static_cast<uint64_t>(bits - 1)));
    v = ir.CreateXor(v, ir.CreateOr(negative, constant(sign)));
    v = ir.CreateSelect(nan, constant(ones), v);
  } else if (type == DType::b8) {
    v = ir.CreateZExt(x, number);
  } else {
    v = is_signed_int(type) ? ir.CreateXor(x, constant(sign)) : x;
  }
  return descending ? ir.CreateNot(v) : v;
}

}  // namespace hologram::codegen
