// backend/cpu/tiles/product.h: products on AMX tiles.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// Fills kernel `k` with such a product and finishes it.
void emit(CpuFunction& k, const TileProduct& plan);

}  // namespace hologram::cpu
