// backend/cuda/attention/tensor.h: attention on tensor cores.
#pragma once

#include "backend/cuda/attention/plan.h"
#include "backend/cuda/function.h"

namespace hologram::cuda {

int tensor_attention_threads(const AttentionPlan& plan);

/// Both products by mma.m16n8k16, for plans that say so. Exponentials are rounded to the operands'
/// type once they are summed.
void emit_tensor_attention(CudaFunction& k, const AttentionPlan& plan);

}  // namespace hologram::cuda
