// backend/cpu/products/narrow.h: a few rows times weights of few bits, widened in registers.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// Fills kernel `k`, whose program is a product on which expand_math has run, and finishes it.
void emit(CpuFunction& k, const NarrowProduct& plan);

}  // namespace hologram::cpu
