// backend/cuda/attention/wide_terms.h: attention of float32 by warpgroups.
#pragma once

#include "backend/cuda/attention/groups.h"

namespace hologram::cuda {

/// The kernel @hologram_wide of a plan whose keys and values are planes of terms.
void emit_wide_terms(CudaFunction& k, const GroupsPlan& plan);

}  // namespace hologram::cuda
