// backend/cuda/products/wide.h: products on GPUs of compute capability 9.0 by warpgroups, whose
// factors come by tensor maps.
//
// The module's second kernel, hologram_wide, reads matrices in memory, by rows or by columns, with
// up to three batch axes: the factors themselves where their bodies only load (mapped.h), else
// planes (planes.h). A CTA stays on its multiprocessor and computes tile after tile of 128 x 256
// results. A thread of its first warpgroup has the next 64 values of k of both factors, 128 of
// bytes, copied by tensor maps (cp.async.bulk.tensor) into one of four slots of shared memory, in
// rows of 128 bytes with their pattern; where a matrix ends the copy brings zeros. The other two
// warpgroups multiply 64 rows each by wgmma.m64n256k16, or k32 of bytes; a step's products are
// under way while the next one's begin. A slot has two mbarriers, one for the bytes that come and
// one at which both warpgroups say that they have read it. The sums of a warp go through 4 KiB of
// shared memory of its own to the epilogue's body, 64 columns at a time, two to eight neighbours a
// lane: fewer for longer bodies. wgmma turns numbers of 16 bits alone, and bytes of two types need
// PTX 8.4. Where tiles are at most half as many as there are multiprocessors, k is cut into as many
// parts as fill these, of at least 512 values (1,024 of bytes) and up to 64.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Whether tensor cores may compute a product of floats of more than a few rows, or of bytes of one
/// type, whose factors are then matrices in memory, along k.
bool has_wide_product(const atlas::Program& program);

/// Adds @hologram_wide to the product's module, and what its launches need to the facts.
void add_wide_product(Facts& facts, llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda
