// backend/cuda/attention_grad/chain.h: gradients of attention as chains of multiply-adds.
//
// 64 x 64 scores (32 x 32 of float64) at a time by the 16 x 16 threads of attention's chains; what
// follows of the scores goes to shared memory. Of heads wider than 128 (float64: 64) a CTA sums a
// panel.
#pragma once

#include "backend/cuda/attention_grad/plan.h"
#include "backend/cuda/function.h"

namespace hologram::cuda {

inline constexpr int chain_grad_threads = 256;

/// Of any types, with the bits of atlas/blocks/attention_grad.h.
void emit_chain_grad(CudaFunction& k, const AttentionGradPlan& plan);

}  // namespace hologram::cuda
