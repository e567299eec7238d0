// backend/cpu/products/small.h: products of a few thousand multiply-adds, and batches of them.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// Fills kernel `k`, whose program is a product on which expand_math has run, and finishes it.
void emit(CpuFunction& k, const SmallProduct& plan);

}  // namespace hologram::cpu
