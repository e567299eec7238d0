// backend/cuda/products/wide_terms.h: float32 products by products of bfloat16 terms on GPUs of
// compute capability 9.0, by warpgroups.
//
// hologram_split computes the right factor and writes a plane of each term, and a left factor whose
// body does more than load as a plane of float32. hologram_wide then works as that of wide.h with
// tiles of 128 x 128 and slots of 32 values of k: five with three terms, six with two, eight with
// one. The left factor comes as it is; a thread reads the numbers of its rows from shared memory,
// even rows of eight first, so that lanes meet different banks, and splits them in registers, from
// which wgmma.m64n128k16 takes its left factor. The planes come in rows of 64 bytes along k, or
// turned, in rows of 128. Code of ptxas before 13.3 needs a witness (witness.h).
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether a product suits terms and has more than a few rows.
bool has_wide_terms(const atlas::ProductBlock& block);

/// Adds @hologram_wide to the product's module, @hologram_split, which runs before it, and what
/// their launches need to the facts.
void add_wide_terms(Facts& facts, llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
