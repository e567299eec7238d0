// backend/cuda/products/emit.h: product blocks as kernels.
#pragma once

#include <optional>
#include <string>

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Why a product is not rendered yet, or nothing.
std::optional<std::string> unrendered_product(const atlas::ProductBlock& block);

/// The kernel of a product block, on which expand_math has run, into `module`.
Facts emit_product_block(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
