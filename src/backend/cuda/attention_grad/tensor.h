// backend/cuda/attention_grad/tensor.h: gradients of attention on tensor cores.
#pragma once

#include "backend/cuda/attention_grad/plan.h"
#include "backend/cuda/function.h"

namespace hologram::cuda {

inline constexpr int tensor_grad_threads = 128;

/// All products by mma.m16n8k16, for plans that say so. Weights are rounded to the operands' type.
void emit_tensor_grad(CudaFunction& k, const AttentionGradPlan& plan);

}  // namespace hologram::cuda
