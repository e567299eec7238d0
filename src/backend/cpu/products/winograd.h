// backend/cpu/products/winograd.h: products over the 3 x 3 windows of an image by Winograd's F(2x2,
// 3x3).
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/products/winograd_plan.h"

namespace hologram::cpu {

/// Fills kernel `k`, whose program is a product with `winograd` set, and finishes it.
void emit(CpuFunction& k, const WinogradPlan& plan);

}  // namespace hologram::cpu
