// codegen/lookup.h: elements of small constant tables.
#pragma once

#include "codegen/body.h"

namespace hologram::codegen {

/// table[index mod its size] for a scalar or a vector of i32.
Value* emit_lookup(Kernel& k, DType type, std::span<const uint64_t> table, Value* index);

}  // namespace hologram::codegen
