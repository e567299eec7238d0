// backend/cpu/attention/emit.h: attention with online softmax, as one kernel.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/target.h"
#include "backend/cpu/units.h"

namespace hologram::cpu {

/// Fills kernel `k`, whose program is an attention block on which expand_math has run, and finishes
/// it.
void emit_attention(CpuFunction& k);

Launch launch_of_attention(const atlas::Program& program, const Target& target);

}  // namespace hologram::cpu
