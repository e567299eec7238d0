// backend/cpu/lookup.h: elements of small constant tables.
#pragma once

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// table[index mod its size] for a scalar or a vector of i32.
Value* emit_lookup(CpuFunction& k, DType type, std::span<const uint64_t> table, Value* index);

}  // namespace hologram::cpu
