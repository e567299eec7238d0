// backend/cuda/products/thin.h: products of up to 16 rows on tensor cores.
//
// A warp multiplies 16 columns on tensor cores: four lanes share 32 values of k of a column, eight
// each, and the registers of mma stand for other values of k than their places say, in both factors
// alike. Where only sizes say how many rows there are, the module has this kernel beside the
// others, as hologram_thin, and launches of up to 16 rows take it.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether a product for tensor cores has up to 16 rows, known when the kernel is made, and factors
/// that lie along k: what sets the pace is reading the right one.
bool is_thin(const atlas::ProductBlock& block);

Facts emit_thin_product(llvm::Module& module, const atlas::Program& program);

/// Whether how many rows such a product has is known at its launch only.
bool may_be_thin(const atlas::ProductBlock& block);

/// Adds @hologram_thin to such a product's module, what merges its parts, and what its launches
/// need to the facts.
void add_thin_product(Facts& facts, llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
