// backend/cuda/products/skinny.h: products of few rows, which read the right factor once.
//
// Of up to four rows a warp takes two or four columns, a lane eight values of k in 16 or 32 bytes;
// the sums of lanes are added by halves.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether a product that suits tensor cores has so few rows that memory sets its pace, and factors
/// that lie along k.
bool is_skinny(const atlas::ProductBlock& block);

Facts emit_skinny_product(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
