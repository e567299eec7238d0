// backend/cuda/products/terms.h: float32 products by six products of bfloat16 terms.
#pragma once

#include <vector>

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether a product may be taken by terms: of f32, whose bits are not promised.
bool suits_terms(const atlas::ProductBlock& block);

/// The products of terms that are taken, the smallest ones first; 0 is the highest term.
struct TermPair {
  size_t left, right;
};
inline constexpr TermPair term_pairs[] = {{1, 1}, {2, 0}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};
inline constexpr int term_count = 3;

/// Of eight f32, four registers of pairs for each term, the highest one first.
std::vector<std::vector<Value*>> take_terms(CudaFunction& k, Value* numbers);

struct Tiling;
Tiling terms_tiling();

/// By mma.m16n8k16, which GPUs of capability 8.0 have.
Facts emit_terms(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
