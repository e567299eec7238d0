// codegen/product_narrow.h: a few rows times weights of few bits, widened in registers.
#pragma once

#include "codegen/body.h"
#include "codegen/product_plan.h"

namespace hologram::codegen {

/// Fills kernel `k`, whose program is a product on which expand_math has run, and finishes it.
void emit_narrow_product(Kernel& k, const NarrowProduct& plan);

}  // namespace hologram::codegen
