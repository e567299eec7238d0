// backend/cuda/attention/merge.h: parts of attention as one.
#pragma once

#include "backend/cuda/attention/plan.h"
#include "backend/cuda/function.h"

namespace hologram::cuda {

/// The kernel that adds up what CTAs have left in the workspace, in ascending order of keys: a CTA
/// for each row of a unit.
void emit_merge(CudaFunction& k, const AttentionPlan& plan);

}  // namespace hologram::cuda
