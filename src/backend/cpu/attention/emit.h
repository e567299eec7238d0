// backend/cpu/attention/emit.h: attention with online softmax, as one kernel.
#pragma once

#include "backend/cpu/attention/plan.h"
#include "backend/cpu/function.h"

namespace hologram::cpu {

/// Fills kernel `k`, whose program is an attention block on which expand_math has run, and finishes
/// it.
void emit(CpuFunction& k, const AttentionPlan& plan);

}  // namespace hologram::cpu
