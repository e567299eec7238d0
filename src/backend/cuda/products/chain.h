// backend/cuda/products/chain.h: products as chains of multiply-adds.
//
// A CTA computes 64 x 64 results with 256 threads, each 4 x 4 of them: 16 values of k of 64 rows
// and 64 columns go to shared memory, neighbours in memory by neighbouring threads. Behind the last
// k the factors are -0 and +0, which change no chain. The sums then take the factors' place in
// shared memory, and the epilogue's body is run over them.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// The product of any types, with the bits that atlas/blocks/product.h states for reproducible
/// ones.
Facts emit_chains(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
