// codegen/soft.h: arithmetic that no instruction does, without library calls.
#pragma once

#include "codegen/body.h"

namespace hologram::codegen {

/// x * y + z rounded once, from additions, multiplications and bit operations.
/// `exact`: else the sum is rounded to double first, which one sum of 2^29 shows.
Value* soft_fma_f32(Function& k, Value* x, Value* y, Value* z, bool exact);
Value* soft_fma_f64(Function& k, Value* x, Value* y, Value* z);
/// C's fmod, exact.
Value* soft_fmod(Function& k, Value* x, Value* y);

}  // namespace hologram::codegen
