// codegen/soft.h: arithmetic that no instruction does, without library calls.
#pragma once

#include "codegen/body.h"

namespace hologram::codegen {

/// x * y + z rounded once, from operations of SSE2.
Value* soft_fma_f32(Kernel& k, Value* x, Value* y, Value* z);
Value* soft_fma_f64(Kernel& k, Value* x, Value* y, Value* z);
/// C's fmod, exact.
Value* soft_fmod(Kernel& k, Value* x, Value* y);

}  // namespace hologram::codegen
