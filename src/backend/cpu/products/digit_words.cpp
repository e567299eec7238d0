// backend/cpu/products/digit_words.cpp: bytes of weights, and vectors of sums, by words of columns.
#include "backend/cpu/products/digit_words.h"

#include <functional>

namespace hologram::cpu {
namespace {

using Values = std::vector<Value*>;

constexpr int vectors = 4;

int lanes_of(Value* x) {
  return static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
}

llvm::Type* integers(CpuFunction& k, int bytes) {
  return llvm::FixedVectorType::get(k.ir.getIntNTy(static_cast<unsigned>(8 * bytes)),
                                    static_cast<unsigned>(k.target.vector_bytes / bytes));
}

// Vectors whose lane l of vector v is element from(v, l) of all of them.
Values shuffled(CpuFunction& k, const Values& t, const std::function<int(int, int)>& from) {
  Values out;
  const int lanes = lanes_of(t[0]), half = 2 * lanes;
  for (int v = 0; v < vectors; ++v) {
    std::vector<int> low, high, both;
    for (int l = 0; l < lanes; ++l) {
      const int place = from(v, l);
      low.push_back(place < half ? place : -1);
      high.push_back(place < half ? -1 : place - half);
      both.push_back(place < half ? l : lanes + l);
    }
    out.push_back(k.ir.CreateShuffleVector(k.ir.CreateShuffleVector(t[0], t[1], low),
                                           k.ir.CreateShuffleVector(t[2], t[3], high), both));
  }
  return out;
}

}  // namespace

Values as_words(CpuFunction& k, const Values& t) {
  return shuffled(k, t, [](int v, int l) { return 16 * (l / 4) + 4 * v + l % 4; });
}

Values in_order(CpuFunction& k, const Values& t) {
  const int lanes = lanes_of(t[0]);
  return shuffled(k, t, [&](int v, int l) {
    const int column = v * lanes + l;
    return column % 16 / 4 * lanes + column / 16 * 4 + column % 4;
  });
}

Values quarters(CpuFunction& k, Value* x) {
  const int lanes = lanes_of(x) / vectors;
  Values out;
  for (int v = 0; v < vectors; ++v) {
    std::vector<int> part;
    for (int l = 0; l < lanes; ++l) part.push_back(v * lanes + l);
    out.push_back(k.ir.CreateShuffleVector(x, part));
  }
  return out;
}

Values zipped(CpuFunction& k, const Values& rows) {
  auto& ir = k.ir;
  auto zip = [&](Value* a, Value* b, int size, bool upper) {  // within 16 bytes
    const int in_group = 16 / size, all = k.target.vector_bytes / size;
    llvm::Type* type = integers(k, size);
    std::vector<int> order;
    for (int l = 0; l < all; ++l) {
      const int from = l / in_group * in_group + (upper ? in_group / 2 : 0) + l % in_group / 2;
      order.push_back(l % 2 ? all + from : from);
    }
    return ir.CreateShuffleVector(ir.CreateBitCast(a, type), ir.CreateBitCast(b, type), order);
  };
  Values out;
  for (bool upper : {false, true}) {
    Value *low = zip(rows[0], rows[1], 1, upper), *high = zip(rows[2], rows[3], 1, upper);
    for (bool half : {false, true})
      out.push_back(ir.CreateBitCast(zip(low, high, 2, half), integers(k, 4)));
  }
  return out;
}

Values halves_of(CpuFunction& k, const Values& bytes) {
  Values out;
  for (int shift : {0, 4})
    for (Value* x : bytes) {
      if (shift) x = k.ir.CreateLShr(x, static_cast<uint64_t>(shift));
      out.push_back(k.ir.CreateAnd(x, llvm::ConstantInt::get(x->getType(), 0x0f0f0f0f)));
    }
  return out;
}

Values pairs_of(CpuFunction& k, Value* words, bool halves, bool is_signed) {
  auto& ir = k.ir;
  auto* type = llvm::cast<llvm::FixedVectorType>(integers(k, 2));
  words = ir.CreateBitCast(words, type);
  auto masked = [&](Value* x, uint64_t bits) {
    return ir.CreateAnd(x, llvm::ConstantInt::get(type, bits));
  };
  if (is_signed) return {ir.CreateAShr(ir.CreateShl(words, 8), 8), ir.CreateAShr(words, 8)};
  Value* upper = ir.CreateLShr(words, 8);
  if (!halves) return {masked(words, 0xff), upper};
  return {masked(words, 0xf), masked(words, 0xf0), masked(upper, 0xf), masked(upper, 0xf0)};
}

}  // namespace hologram::cpu
