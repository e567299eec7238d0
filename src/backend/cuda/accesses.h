// backend/cuda/accesses.h: vectors in global memory.
#pragma once

#include <llvm/IR/Module.h>

namespace hologram::cuda {

/// Vectors of global memory that are known to be aligned to their elements alone become one access
/// of up to 16 bytes where the address turns out to be a multiple of that, else one for each
/// element.
void choose_accesses(llvm::Module& module);

}  // namespace hologram::cuda
