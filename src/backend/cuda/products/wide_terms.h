// backend/cuda/products/wide_terms.h: float32 products by products of bfloat16 terms on GPUs of
// compute capability 9.0, by warpgroups.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether a product suits terms and has more than a few rows.
bool has_wide_terms(const atlas::ProductBlock& block);

/// Adds @hologram_wide to the product's module, @hologram_split, which runs before it, and what
/// their launches need to the facts.
void add_wide_terms(Facts& facts, llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
