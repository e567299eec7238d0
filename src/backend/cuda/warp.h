// backend/cuda/warp.h: values from lane to lane of a warp.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// The value of another lane: lane ^ operand if `across`, else lane `operand` (i32).
Value* shuffle(llvm::IRBuilder<>& ir, Value* value, Value* operand, bool across);

/// What lanes wrote is seen by the others; where the warp may have parted, it meets again.
void sync_warp(llvm::IRBuilder<>& ir);

}  // namespace hologram::cuda
