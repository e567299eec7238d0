// backend/cpu/operands/dots.cpp: inner products of contiguous rows, with lanes along the summed
// axis.
#include "backend/cpu/operands/dots.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "backend/cpu/operands/pack.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

// Vectors that hold one sum's partials → one.
Value* add_halves(CpuFunction& k, std::vector<Value*> v) {
  for (size_t half = v.size() / 2; half >= 1; half /= 2)
    for (size_t i = 0; i < half; ++i) v[i] = k.ir.CreateFAdd(v[i], v[i + half]);
  return v[0];
}

// sums[i]: `lanes` partials of sum i, for as many sums. Each round halves the vectors: blocks of
// two halves from two vectors become a block of the first's sums and a block of the second's.
Value* add_across(CpuFunction& k, std::vector<Value*> sums, int lanes) {
  for (int half = lanes / 2; half >= 1; half /= 2) {
    std::vector<int> low, high;
    for (int l = 0; l < lanes; ++l) {
      int position = l % (2 * half), from = position < half ? l : l - half + lanes;
      low.push_back(from);
      high.push_back(from + half);
    }
    for (int i = 0; i < half; ++i) {
      auto n = static_cast<size_t>(i);
      Value *a = sums[n], *b = sums[n + static_cast<size_t>(half)];
      sums[n] = k.ir.CreateFAdd(k.ir.CreateShuffleVector(a, b, low),
                                k.ir.CreateShuffleVector(a, b, high));
    }
  }
  return sums[0];
}

}  // namespace

Value* sum_partials(CpuFunction& k, std::vector<Value*> partials, int lanes) {
  Value* v = add_halves(k, std::move(partials));
  for (int half = lanes / 2; half >= 1; half /= 2) {
    std::vector<int> order;
    for (int l = 0; l < lanes; ++l) order.push_back(l ^ half);
    v = k.ir.CreateFAdd(v, k.ir.CreateShuffleVector(v, order));
  }
  return k.ir.CreateExtractElement(v, uint64_t{0});
}

Value* dot_bf16(CpuFunction& k, Value* sums, Value* x, Value* y) {
  llvm::Type* pairs = k.widen(llvm::Type::getBFloatTy(k.context), k.target.vector_bytes / 2);
  return k.ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                              {sums, k.ir.CreateBitCast(x, pairs), k.ir.CreateBitCast(y, pairs)});
}

Value* RowDots::emit(Scope& scope, Value* x, const std::vector<Value*>& rows) const {
  CpuFunction& k = function_of(scope);
  int partials = partials_of(type), vectors = partials / lanes;
  llvm::Type* vector = k.lane_type(type, lanes);
  llvm::Type* stored = k.widen(k.memory_type(storage), lanes);
  llvm::Align align(static_cast<uint64_t>(size_of(type))),
      stored_align(static_cast<uint64_t>(size_of(storage)));
  auto at_once = static_cast<size_t>(std::max(1, std::min(lanes, registers / vectors)));
  std::vector<Value*> sums;
  for (size_t first = 0; first < rows.size(); first += at_once) {
    scope.seek();
    std::vector<Value*> zero(at_once * static_cast<size_t>(vectors),
                             llvm::Constant::getNullValue(vector));
    auto pairs_of = [&](Value* at) {
      llvm::Type* words = k.widen(llvm::Type::getBFloatTy(k.context), 2 * lanes);
      Value* left =
          k.ir.CreateAlignedLoad(k.lane_type(type, 2 * lanes), element(k, type, x, at), align);
      return k.ir.CreateFPTrunc(left, words);
    };
    auto step = [&](Scope& s, Value* at, std::vector<Value*> t) {
      s.seek();
      if (pairs) {
        Value* left = pairs_of(at);
        for (size_t r = 0; r < at_once; ++r) {
          Value* right = k.ir.CreateAlignedLoad(
              left->getType(), element(k, storage, rows[first + r], at), stored_align);
          t[r] = dot_bf16(k, t[r], left, right);
        }
        return t;
      }
      for (int v = 0; v < vectors; ++v) {
        Value* here = k.ir.CreateNSWAdd(at, k.i64(int64_t{v} * lanes));
        Value* left = k.ir.CreateAlignedLoad(vector, element(k, type, x, here), align);
        for (size_t r = 0; r < at_once; ++r) {
          Value* right = k.ir.CreateAlignedLoad(stored, element(k, storage, rows[first + r], here),
                                                stored_align);
          if (storage != type) right = emit_cast(k, ir::Op::cast, right, storage, type);
          Value*& sum = t[r * static_cast<size_t>(vectors) + static_cast<size_t>(v)];
          sum = multiply_add(k, type, left, right, sum);
        }
      }
      return t;
    };
    std::vector<Value*> t = zero;
    // Without FMA instructions a step is long.
    const int64_t each = pairs ? 2 * partials : partials;
    if (depth <= 8 * partials && k.target.fma)
      for (int64_t at = 0; at < depth; at += each) t = step(scope, k.i64(at), t);
    else
      t = emit_loop(scope, k.i64(0), k.i64(depth), k.i64(each), true, zero, step);
    scope.seek();
    for (size_t r = 0; r < at_once; ++r) {
      auto begin = t.begin() + static_cast<ptrdiff_t>(r) * vectors;
      sums.push_back(add_halves(k, {begin, begin + vectors}));
    }
  }
  return add_across(k, std::move(sums), lanes);
}

}  // namespace hologram::cpu
