// backend/cuda/attention_grad/emit.h: blocks of gradients of attention as kernels.
#pragma once

#include <optional>
#include <string>

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Why gradients of attention are not rendered yet, or nothing.
std::optional<std::string> unrendered_attention_grad(const atlas::AttentionGradBlock& block);

/// The kernel of such a block, on which expand_math has run, into `module`.
Facts emit_attention_grad_block(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
