// backend/cuda/products/tensor.h: products on tensor cores.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether tensor cores may compute a product: 16-bit floats, summed in f32, whose bits are not
/// promised, and bytes along k.
bool suits_tensor_cores(const atlas::ProductBlock& block);

struct Tiling;
Tiling tensor_tiling(const atlas::ProductBlock& block);

/// By mma.m16n8k16 or m16n8k32, which GPUs of capability 8.0 have.
Facts emit_tensor_product(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
