// codegen/product.h: matrix products with inlined operand and epilogue bodies.
#pragma once

#include "codegen/body.h"
#include "codegen/product_plan.h"

namespace hologram::codegen {

/// Fills kernel `k`, whose program is a product on which expand_math has run, and finishes it.
void emit_product(Kernel& k);

}  // namespace hologram::codegen
