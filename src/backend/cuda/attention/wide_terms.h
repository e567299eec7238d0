// backend/cuda/attention/wide_terms.h: attention of float32 by warpgroups.
//
// hologram_split first writes keys and values as three planes of terms to the workspace, in each
// call. A thread splits its queries in registers, once for a tile, and the exponentials of 64 keys,
// which are exact here; sums of 32 numbers of the depth, or of 32 keys, begin at zero and are then
// added up. A row that is not finite in the end marks the workspace; the kernel of chains, launched
// behind, returns at once where there is no mark, and else does all of the work again.
#pragma once

#include "backend/cuda/attention/groups.h"

namespace hologram::cuda {

/// The kernel @hologram_wide of a plan whose keys and values are planes of terms.
void emit_wide_terms(CudaFunction& k, const GroupsPlan& plan);

}  // namespace hologram::cuda
