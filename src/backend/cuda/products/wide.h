// backend/cuda/products/wide.h: products on GPUs of compute capability 9.0 by warpgroups, whose
// factors come by tensor maps.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether a product that tensor cores may compute, of floats of more than a few rows or of bytes,
/// has a left factor that is a matrix in memory, one way or the other; of bytes both factors, along
/// k and of one type.
bool has_wide_product(const atlas::Program& program);

/// Adds @hologram_wide to the product's module, and what its launches need to the facts.
void add_wide_product(Facts& facts, llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
