// backend/cuda/products/thin.h: products of up to 16 rows on tensor cores.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether a product for tensor cores has up to 16 rows, known when the kernel is made, and factors
/// that lie along k: what sets the pace is reading the right one.
bool is_thin(const atlas::ProductBlock& block);

Facts emit_thin_product(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
