// codegen/product_small.h: products of a few thousand multiply-adds, and batches of them.
#pragma once

#include "codegen/body.h"
#include "codegen/product_plan.h"

namespace hologram::codegen {

/// Fills kernel `k`, whose program is a product on which expand_math has run, and finishes it.
void emit_small_product(Kernel& k, const SmallProduct& plan);

}  // namespace hologram::codegen
