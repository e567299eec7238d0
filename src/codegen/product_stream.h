// codegen/product_stream.h: a few rows times a large matrix that is read once, as it lies.
#pragma once

#include "codegen/body.h"
#include "codegen/product_plan.h"

namespace hologram::codegen {

/// Fills kernel `k`, whose program is a product on which expand_math has run, and finishes it.
void emit_stream_product(Kernel& k, const StreamProduct& plan);

}  // namespace hologram::codegen
