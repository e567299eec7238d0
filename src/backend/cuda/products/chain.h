// backend/cuda/products/chain.h: products as chains of multiply-adds.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// The product of any types, with the bits that atlas/blocks/product.h states for reproducible
/// ones.
Facts emit_chains(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
