// backend/cuda/attention/wide.h: attention by warpgroups, on GPUs of compute capability 9.0.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Of 16-bit floats, whose queries, keys and values are matrices in memory that tensor maps
/// describe, or of float32, whose queries are; of more queries than a few.
bool has_wide_attention(const atlas::Program& program);
/// Adds @hologram_wide to the module, and what it needs to the facts.
void add_wide_attention(Facts& facts, llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
