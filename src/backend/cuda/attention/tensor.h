// backend/cuda/attention/tensor.h: attention on tensor cores.
//
// A warp has 16 rows. Its queries stay in registers, and so do the scores of 64 keys and the sums
// of values, as mma.m16n8k16 leaves them: exponentials, rounded to pairs, are the left factor of
// the second product without a move. Keys and values of a step lie in shared memory; the values are
// on their way through registers while the keys are multiplied, the next keys while the values are.
// Of values wider than 128 a CTA sums a part, and heads deeper than 128 are read 32 keys at a time
// by at most 64 rows. Up to 16 queries are one tile: heads that share keys fill it together, and
// four warps take a part each of a step's 64 keys.
#pragma once

#include "backend/cuda/attention/plan.h"
#include "backend/cuda/function.h"

namespace hologram::cuda {

int tensor_attention_threads(const AttentionPlan& plan);

/// Both products by mma.m16n8k16, for plans that say so. Exponentials are rounded to the operands'
/// type once they are summed.
void emit_tensor_attention(CudaFunction& k, const AttentionPlan& plan);

}  // namespace hologram::cuda
