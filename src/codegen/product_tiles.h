// codegen/product_tiles.h: products on AMX tiles.
#pragma once

#include "codegen/body.h"
#include "codegen/product_plan.h"

namespace hologram::codegen {

/// Fills kernel `k` with such a product and finishes it.
void emit_tile_product(Kernel& k, const TileProduct& plan);

}  // namespace hologram::codegen
