// backend/cuda/attention/emit.h: attention blocks as kernels.
#pragma once

#include <optional>
#include <string>

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Why attention is not rendered yet, or nothing.
std::optional<std::string> unrendered_attention(const atlas::AttentionBlock& block);

/// The kernel of an attention block, on which expand_math has run, into `module`; where keys may be
/// cut into parts, also the one that merges them.
Facts emit_attention_block(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
