// backend/cpu/products/emit.h: matrix products with inlined operand and epilogue bodies.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// Fills kernel `k`, whose program is a product on which expand_math has run, and finishes it.
void emit(CpuFunction& k, const ProductPlan& plan);

}  // namespace hologram::cpu
