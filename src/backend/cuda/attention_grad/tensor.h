// backend/cuda/attention_grad/tensor.h: gradients of attention on tensor cores.
//
// A warp has 16 rows, whose operands stay in shared memory, beside those of 32 steps (16 of heads
// above 64); the next steps' are on their way through registers. Scores are left in registers as
// mma.m16n8k16 takes a left factor, so p and s, rounded to pairs, are multiplied without a move: a
// CTA of keys computes the scores turned.
#pragma once

#include "backend/cuda/attention_grad/plan.h"
#include "backend/cuda/function.h"

namespace hologram::cuda {

inline constexpr int tensor_grad_threads = 128;

/// All products by mma.m16n8k16, for plans that say so. Weights are rounded to the operands' type.
void emit_tensor_grad(CudaFunction& k, const AttentionGradPlan& plan);

}  // namespace hologram::cuda
