// backend/cuda/attention_grad/share.h: CTAs that have keys beside those that have queries.
#pragma once

#include "backend/cuda/attention_grad/tile.h"

namespace hologram::cuda {

/// Emits `work` for the shares that the plan has, each in the CTAs that are its own, and finishes
/// the kernel. `numbers`: shared memory for GradTile.
void emit_shares(CudaFunction& k, const AttentionGradPlan& plan, int threads, Value* numbers,
                 const std::function<void(GradTile&)>& work);

}  // namespace hologram::cuda
