// backend/cpu/tiles/terms.h: float32 as bfloat16 terms in registers, and where these cannot be
// trusted.
#pragma once

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// The terms of a vector of f32 (atlas::terms_of), each as the upper halves of words.
std::vector<Value*> emit_term_words(CpuFunction& k, Value* x, int terms);
/// Words of both numbers' terms, term by term; the first numbers are lower. The first terms are
/// folded into `least` and `most`, vectors of i16.
std::vector<Value*> emit_pairs_of_terms(CpuFunction& k, Value* first, Value* second, int terms,
                                        Value*& least, Value*& most);

/// Folds first terms (bf16 bits) of a row or column into the least and the largest of |x| - 1: by
/// unsigned order, in which 0 is the largest, and by signed order, in which it is the least.
struct TileClasses {
  CpuFunction& k;

  Value* none_least(llvm::Type* halves) { return llvm::Constant::getAllOnesValue(halves); }
  Value* none_most(llvm::Type* halves) { return llvm::Constant::getAllOnesValue(halves); }
  /// Updates both with `x`, a vector of i16 like them.
  void fold(Value* x, Value*& least, Value*& most);
  /// The class (i32) of each lane from its least (zero-extended i32) and most (sign-extended).
  Value* of(Value* least, Value* most);
  /// The same of vectors of i16.
  Value* of_halves(Value* least, Value* most);
  /// The class (i32) of all lanes together.
  Value* of_all(Value* least, Value* most);
  /// Which sums of terms the chain must replace, where `both` is the lesser class (i32) of the row
  /// and the column.
  Value* refused(Value* both, Value* sum);
};

}  // namespace hologram::cpu
