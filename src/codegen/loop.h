// codegen/loop.h: loop blocks.
#pragma once

#include "codegen/body.h"
#include "codegen/loop_plan.h"

namespace hologram::codegen {

/// Fills kernel `k`, whose program is a loop block on which expand_math has run, and finishes it.
void emit_loop_block(Kernel& k);

}  // namespace hologram::codegen
