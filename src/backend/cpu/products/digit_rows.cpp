// backend/cpu/products/digit_rows.cpp: rows of float32 as whole numbers of two or three digits of 8
// bits.
#include "backend/cpu/products/digit_rows.h"

#include <llvm/IR/Intrinsics.h>

#include "backend/cpu/operands/pack.h"
#include "codegen/nest.h"

namespace hologram::cpu {

DigitRows::DigitRows(CpuFunction& kernel, const DigitProduct& plan, const DigitForm& form)
    : IndexBuilder(kernel),
      plan_(plan),
      form_(form),
      vector_(k_.lane_type(DType::f32, plan.lanes)),
      ints_(k_.widen(k_.ir.getInt32Ty(), plan.lanes)),
      largest_(k_.slot(ints_, "largest")) {
  for (Value*& sum : digit_sums_) sum = k_.slot(ints_, "digit_sum");
}

Value* DigitRows::splat_of(Value* scalar) {
  return k_.ir.CreateVectorSplat(static_cast<unsigned>(plan_.lanes), scalar);
}

Value* DigitRows::note_of(Value* row, Value* segment, int64_t which) {
  Value* notes_at = element(k_, DType::u8, row, k_.i64(plan_.digits * plan_.plane_bytes()));
  return element(k_, DType::i32, notes_at, add(mul(segment, notes), which));
}

Value* DigitRows::row_vector(Value* x, Value* offset, Value* mask) {
  Value* p = element(k_, DType::f32, x, offset);
  if (!mask) return k_.ir.CreateAlignedLoad(vector_, p, llvm::Align(4));
  return k_.ir.CreateMaskedLoad(vector_, p, llvm::Align(4), mask,
                                llvm::Constant::getNullValue(vector_));
}

void DigitRows::write(Scope& scope, Value* x, Value* out) {
  const int64_t segments = (plan_.k + plan_.segment - 1) / plan_.segment;
  emit_loop(scope, k_.i64(0), k_.i64(segments), k_.i64(1), true, [&](Scope& s, Value* segment) {
    s.seek();
    Value* begin = mul(segment, plan_.segment);
    Value* count = k_.i64(plan_.segment);
    if (plan_.k % plan_.segment) count = least(sub(k_.i64(plan_.k), begin), count);
    Value* from = element(k_, DType::f32, x, begin);
    k_.ir.CreateStore(splat_of(uint32_t{0}), largest_);
    for (Value* sum : digit_sums_) k_.ir.CreateStore(splat_of(uint32_t{0}), sum);
    for_vectors(s, count, plan_.lanes, [&](Scope& v, Value* offset, Value* mask) {
      v.seek();
      Value* bits = k_.ir.CreateBitCast(row_vector(from, offset, mask), ints_);
      bits = k_.ir.CreateAnd(bits, splat_of(uint32_t{0x7fffffff}));
      Value* so_far = k_.ir.CreateLoad(ints_, largest_);
      k_.ir.CreateStore(k_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umax, bits, so_far), largest_);
    });
    s.seek();
    auto number = [&](uint32_t n) { return k_.ir.getInt32(n); };
    Value* bits = k_.ir.CreateIntMaxReduce(k_.ir.CreateLoad(ints_, largest_), false);
    Value* exponent = k_.ir.CreateLShr(bits, number(23));
    Value* from_24 = k_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umax, exponent, number(24));
    auto power = [&](Value* e) {
      return k_.ir.CreateBitCast(k_.ir.CreateShl(e, number(23)), k_.ir.getFloatTy());
    };
    const auto bits_below = static_cast<uint32_t>(plan_.digits == 3 ? 21 : 13);
    Value* per_unit = power(k_.ir.CreateSub(number(254 + bits_below), from_24));
    Value* unit = power(k_.ir.CreateSub(from_24, number(bits_below)));
    // Infinities, NaN, and values whose unit would be no normal number.
    Value* other =
        k_.ir.CreateAnd(k_.ir.CreateICmpUGT(k_.ir.CreateSub(exponent, number(24)), number(230)),
                        k_.ir.CreateICmpNE(bits, number(0)));
    unit = k_.ir.CreateSelect(other, llvm::ConstantFP::getNaN(unit->getType()), unit);
    for_vectors(s, count, plan_.lanes, [&](Scope& v, Value* offset, Value* mask) {
      v.seek();
      digits_of_vector(row_vector(from, offset, mask), per_unit,
                       element(k_, plan_.pairs ? DType::u16 : DType::u8, out, add(begin, offset)));
    });
    s.seek();
    write_notes(out, segment, unit);
  });
}

// Stores the digits of the numbers x, and adds them to their sums.
void DigitRows::digits_of_vector(Value* x, Value* per_unit, Value* out) {
  auto& ir = k_.ir;
  // 1.5 * 2^23 has a last place of 1; with 128 added to each digit, no digit borrows.
  constexpr float rounder = 12582912;
  constexpr uint32_t rounder_bits = 0x4b400000, biases = 0x808080;
  Value* sum = multiply_add(k_, DType::f32, x, splat_of(per_unit), splat_of(rounder));
  Value* all = ir.CreateBitCast(sum, ints_);
  auto store = [&](Value* digit, int bits, int j, std::vector<int> places) {
    Value*& slot = digit_sums_[static_cast<size_t>(j)];
    ir.CreateStore(ir.CreateAdd(ir.CreateLoad(ints_, slot), digit), slot);
    std::vector<int> order;
    const auto together = static_cast<int>(places.size());
    for (int l = 0; l < plan_.lanes; ++l)
      order.push_back(l / together * together + places[static_cast<size_t>(l % together)]);
    digit = ir.CreateTrunc(digit, k_.widen(ir.getIntNTy(static_cast<unsigned>(bits)), plan_.lanes));
    ir.CreateAlignedStore(ir.CreateShuffleVector(digit, order),
                          element(k_, DType::u8, out, k_.i64(j * plan_.plane_bytes())),
                          llvm::Align(1));
  };
  const std::vector<int>& p = form_.places;
  if (plan_.pairs) {
    all = ir.CreateSub(all, splat_of(rounder_bits));
    if (plan_.halves) return store(all, 16, 0, {p[0], p[2], p[4], p[6], p[1], p[3], p[5], p[7]});
    return store(all, 16, 0, {p[0], p[2], p[1], p[3]});
  }
  all = ir.CreateXor(ir.CreateAdd(all, splat_of(biases - rounder_bits)), splat_of(biases));
  for (int j = 0; j < plan_.digits; ++j) {
    Value* digit = ir.CreateAShr(ir.CreateShl(all, static_cast<uint64_t>(24 - 8 * j)), 24);
    store(digit, 8, j, p);
  }
}

void DigitRows::write_notes(Value* out, Value* segment, Value* unit) {
  auto& ir = k_.ir;
  llvm::Type* type = ir.getFloatTy();
  auto store = [&](Value* x, Value* p) { ir.CreateAlignedStore(x, p, llvm::Align(4)); };
  Value* sum = nullptr;
  for (int j = plan_.digits; j-- > 0;) {
    Value* of_digit = ir.CreateAddReduce(ir.CreateLoad(ints_, digit_sums_[static_cast<size_t>(j)]));
    Value* start = ir.CreateMul(of_digit, ir.getInt32(static_cast<uint32_t>(-form_.number.offset)));
    store(start, note_of(out, segment, starts + j));
    Value* part = ir.CreateSIToFP(of_digit, type);
    sum = sum ? multiply_add(k_, DType::f32, sum, llvm::ConstantFP::get(type, 256), part) : part;
  }
  store(unit, note_of(out, segment, step));
  store(ir.CreateFMul(sum, unit), note_of(out, segment, total));
}

}  // namespace hologram::cpu
