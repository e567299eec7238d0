// backend/cuda/sort/sort.h: sort blocks as kernels.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// The kernel of a sort block, on which expand_math has run, into `module`; where rows may be
/// longer than a tile, the one that merges tiles, too.
Facts emit_sort_block(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
