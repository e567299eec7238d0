// backend/cuda/attention_grad/chain.h: gradients of attention as chains of multiply-adds.
#pragma once

#include "backend/cuda/attention_grad/plan.h"
#include "backend/cuda/function.h"

namespace hologram::cuda {

inline constexpr int chain_grad_threads = 256;

/// Of any types, with the bits of atlas/blocks/attention_grad.h.
void emit_chain_grad(CudaFunction& k, const AttentionGradPlan& plan);

}  // namespace hologram::cuda
