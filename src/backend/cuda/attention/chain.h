// backend/cuda/attention/chain.h: attention as chains of multiply-adds.
//
// 16 x 16 threads compute the scores of 16, 32 or 64 rows and 128 keys, as products do, and put
// them into shared memory; a warp turns whole rows of them into exponentials, lanes along the keys;
// then each thread adds p v for its rows and columns, key by key, and the exponentials in the same
// order.
#pragma once

#include "backend/cuda/attention/plan.h"
#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Of any types. Sums run over keys one by one in ascending order, by blocks of 128. `marked`: with
/// a workspace, the kernel only works if that begins with another word than 0.
void emit_chain_attention(CudaFunction& k, const AttentionPlan& plan, bool marked);

inline constexpr int chain_attention_threads = 256;

}  // namespace hologram::cuda
