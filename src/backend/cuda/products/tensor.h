// backend/cuda/products/tensor.h: products on tensor cores.
//
// A CTA of eight warps computes 128 x 128 results, a warp 64 x 32 of them. The bodies of both
// factors are run where they are read, eight neighbours at a time; the next 32 values of k are on
// their way through registers while those in shared memory are multiplied. A factor lies there as
// it does in memory, by rows or by columns: ldmatrix turns it. Sums go through shared memory to the
// epilogue's body, 32 rows at a time. Bytes that lie along k in both factors go the same way by
// mma.m16n8k32, 64 values of k at a time; their sums are exact.
#pragma once

#include "backend/cuda/function.h"
#include "gpu/products.h"

namespace hologram::cuda {

/// Whether tensor cores may compute a product: 16-bit floats, summed in f32, whose bits are not
/// promised, and bytes along k.
bool suits_tensor_cores(const atlas::ProductBlock& block);

gpu::Tiling tensor_tiling(const atlas::ProductBlock& block);

/// By mma.m16n8k16 or m16n8k32, which GPUs of capability 8.0 have.
Facts emit_tensor_product(llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
