// backend/cpu/loops/emit.h: loop blocks.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/loops/plan.h"

namespace hologram::cpu {

/// Fills kernel `k`, whose program is a loop block on which expand_math has run, and finishes it.
void emit(CpuFunction& k, const LoopPlan& plan);

}  // namespace hologram::cpu
