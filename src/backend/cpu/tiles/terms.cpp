// backend/cpu/tiles/terms.cpp: float32 as bfloat16 terms in registers, and where these cannot be
// trusted.
#include "backend/cpu/tiles/terms.h"

#include <limits>

#include "atlas/tile_math.h"

namespace hologram::cpu {
namespace {

llvm::Constant* same(llvm::Type* type, int64_t value) {
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(value), true);
}

llvm::Type* words_like(Value* halves) {
  return halves->getType()->getWithNewType(llvm::Type::getInt32Ty(halves->getType()->getContext()));
}

}  // namespace

std::vector<Value*> emit_term_words(CpuFunction& k, Value* x, int terms) {
  llvm::Type *floats = x->getType(), *words = floats->getWithNewType(k.ir.getInt32Ty());
  std::vector<Value*> planes;
  for (int t = 0; t < terms; ++t) {
    Value* bits = k.ir.CreateBitCast(x, words);
    Value* rounded = bits;
    if (t < 2 && t + 1 < terms) {
      rounded = k.ir.CreateAdd(bits, same(words, 0x8000));
    } else if (t < 2) {
      Value* odd = k.ir.CreateAnd(k.ir.CreateLShr(bits, 16), same(words, 1));
      rounded = k.ir.CreateAdd(k.ir.CreateAdd(bits, same(words, 0x7fff)), odd);
    }
    rounded = k.ir.CreateAnd(rounded, same(words, 0xffff0000));
    Value* term = rounded;
    if (t == 0) {
      Value* lost = k.ir.CreateAnd(
          k.ir.CreateICmpEQ(k.ir.CreateAnd(rounded, same(words, 0x7fffffff)), same(words, 0)),
          k.ir.CreateICmpNE(k.ir.CreateAnd(bits, same(words, 0x7fffffff)), same(words, 0)));
      term = k.ir.CreateSelect(lost, k.ir.CreateOr(rounded, same(words, 0x10000)), rounded);
    }
    planes.push_back(term);
    if (t + 1 < terms) x = k.ir.CreateFSub(x, k.ir.CreateBitCast(rounded, floats));
  }
  return planes;
}

std::vector<Value*> emit_pairs_of_terms(CpuFunction& k, Value* first, Value* second, int terms,
                                        Value*& least, Value*& most) {
  auto low = emit_term_words(k, first, terms), high = emit_term_words(k, second, terms);
  for (Value* x : {low[0], high[0]})
    TileClasses{k}.fold(k.ir.CreateTrunc(k.ir.CreateLShr(x, 16), least->getType()), least, most);
  for (size_t t = 0; t < low.size(); ++t)
    low[t] = k.ir.CreateOr(k.ir.CreateLShr(low[t], 16), high[t]);
  return low;
}

void TileClasses::fold(Value* x, Value*& least, Value*& most) {
  llvm::Type* t = x->getType();
  x = k.ir.CreateSub(k.ir.CreateAnd(x, same(t, 0x7fff)), same(t, 1));
  least = k.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, least, x);
  most = k.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, most, x);
}

Value* TileClasses::of(Value* least, Value* most) {
  llvm::Type* t = least->getType();
  auto within = [&](int low, int end) {
    return k.ir.CreateZExt(k.ir.CreateAnd(k.ir.CreateICmpUGE(least, same(t, low - 1)),
                                          k.ir.CreateICmpSLT(most, same(t, end - 1))),
                           t);
  };
  return k.ir.CreateAdd(within(atlas::narrow_least, atlas::narrow_end),
                        within(atlas::wide_least, atlas::wide_end));
}

Value* TileClasses::of_halves(Value* least, Value* most) {
  llvm::Type* words = words_like(least);
  return of(k.ir.CreateZExt(least, words), k.ir.CreateSExt(most, words));
}

Value* TileClasses::of_all(Value* least, Value* most) {
  llvm::Type* word = k.ir.getInt32Ty();
  return of(k.ir.CreateZExt(k.ir.CreateIntMinReduce(least, false), word),
            k.ir.CreateSExt(k.ir.CreateIntMaxReduce(most, true), word));
}

Value* TileClasses::refused(Value* both, Value* sum) {
  auto& ir = k.ir;
  llvm::Type* floats = sum->getType();
  auto is = [&](atlas::Magnitudes m) {
    return ir.CreateICmpEQ(both, same(both->getType(), static_cast<int64_t>(m)));
  };
  Value* size = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, sum);
  Value* good = ir.CreateAnd(
      ir.CreateFCmpOGE(size, llvm::ConstantFP::get(floats, atlas::least_wide_sum)),
      ir.CreateFCmpOLT(size,
                       llvm::ConstantFP::get(floats, std::numeric_limits<double>::infinity())));
  return ir.CreateNot(
      ir.CreateOr(is(atlas::Magnitudes::narrow), ir.CreateAnd(is(atlas::Magnitudes::wide), good)));
}

}  // namespace hologram::cpu
