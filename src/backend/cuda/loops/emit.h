// backend/cuda/loops/emit.h: loop blocks as kernels.
#pragma once

#include <optional>
#include <string>

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Why a loop block is not rendered yet, or nothing.
std::optional<std::string> unrendered_loop(const atlas::LoopBlock& block);

/// The kernel of a loop block, on which expand_math has run, into `module`. `block`: threads of a
/// CTA where each has points of its own.
Facts emit_loop_block(llvm::Module& module, const atlas::Program& program, int block);

}  // namespace hologram::cuda
