// backend/cpu/products/digit_rows.h: rows of float32 as whole numbers of two or three digits of 8
// bits.
#pragma once

#include <array>

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/products/digits.h"

namespace hologram::cpu {

/// In a segment of k a row's values are taken in units of 2^-21 (of two digits: 2^-13) of the power
/// of two below its largest one: whole numbers x = d0 + 256 d1 + 65536 d2 with digits from -128 to
/// 127, a plane of memory for each place and the notes behind them.
class DigitRows : IndexBuilder {
 public:
  static constexpr int most_digits = 3;
  /// What is known of a row's segment, in words of 32 bits: what sums of each digit begin with, the
  /// unit, and the sum of the values.
  enum Note : int64_t { starts = 0, step = most_digits, total, notes = 8 };

  DigitRows(CpuFunction& kernel, const DigitProduct& plan, const DigitForm& form);

  /// The digits of the row at `x`, and what is to be known of its segments.
  void write(Scope& scope, Value* x, Value* out);
  /// Where the row whose digits are at `digits` has that note of a segment.
  Value* note_of(Value* digits, Value* segment, int64_t which);

 private:
  Value* splat_of(Value* scalar);
  Value* splat_of(float x) { return llvm::ConstantFP::get(vector_, x); }
  Value* splat_of(uint32_t x) { return llvm::ConstantInt::get(ints_, x); }
  Value* row_vector(Value* x, Value* offset, Value* mask);
  void digits_of_vector(Value* x, Value* per_unit, Value* out);
  void write_notes(Value* out, Value* segment, Value* unit);

  const DigitProduct& plan_;
  const DigitForm& form_;
  llvm::Type *vector_, *ints_;  // a vector of float32, and as words
  Value* largest_;
  std::array<Value*, most_digits> digit_sums_{};
};

}  // namespace hologram::cpu
