// backend/cuda/products/wide.h: products on GPUs of compute capability 9.0 by warpgroups, whose
// factors come by tensor maps.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether tensor cores may compute a product of floats of more than a few rows, or of bytes of one
/// type, whose factors are then matrices in memory, along k.
bool has_wide_product(const atlas::Program& program);

/// Adds @hologram_wide to the product's module, and what its launches need to the facts.
void add_wide_product(Facts& facts, llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
