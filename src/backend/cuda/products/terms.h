// backend/cuda/products/terms.h: float32 products by six products of bfloat16 terms.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether a product may be taken by terms: of f32, whose bits are not promised.
bool suits_terms(const atlas::ProductBlock& block);

/// By mma.m16n8k16, which GPUs of capability 8.0 have.
Facts emit_terms(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
