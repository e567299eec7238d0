// backend/cpu/products/stream.h: a few rows times a large matrix that is read once, as it lies.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// Fills kernel `k`, whose program is a product on which expand_math has run, and finishes it.
void emit(CpuFunction& k, const StreamProduct& plan);

}  // namespace hologram::cpu
