// backend/cuda/attention/wide.h: attention by warpgroups, on GPUs of compute capability 9.0.
//
// A CTA has 64 rows for each of two warpgroups, of three where heads have up to 64 numbers and
// scores are only scaled and masked by causality. A thread of another warpgroup has the queries and
// block after block of 128 keys (64 of longer score bodies) and their values copied by tensor maps
// into shared memory, two of each. A warpgroup begins the next block's scores (wgmma.m64n128k16)
// and then the product of exponentials and values, waits for the scores and takes their
// exponentials while the second product goes on. Exponentials stay in registers, from which wgmma
// takes its left factor. Blocks that all rows see skip the mask. ptxas moves a wait for products to
// the beginning of its basic block: the exponentials have one of their own, and a test looks for
// them in the machine code. Of causal attention and bounded keys each CTA has one tile, the longest
// of a head first.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Of 16-bit floats, whose queries, keys and values are matrices in memory that tensor maps
/// describe, or of float32, whose queries are; of more queries than a few.
bool has_wide_attention(const atlas::Program& program);
/// Adds @hologram_wide to the module, and what it needs to the facts.
void add_wide_attention(Facts& facts, llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
