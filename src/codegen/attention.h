// codegen/attention.h: attention with online softmax, as one kernel.
#pragma once

#include "codegen/body.h"
#include "codegen/codegen.h"

namespace hologram::codegen {

/// Fills kernel `k`, whose program is an attention block on which expand_math has run, and finishes
/// it.
void emit_attention(Kernel& k);

Launch launch_of_attention(const atlas::Program& program, const Target& target);

}  // namespace hologram::codegen
