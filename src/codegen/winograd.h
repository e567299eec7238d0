// codegen/winograd.h: products over the 3 x 3 windows of an image by Winograd's F(2x2, 3x3).
#pragma once

#include "codegen/body.h"

namespace hologram::codegen {

/// Emits the whole kernel of a product with `winograd` set. The units are those of
/// launch_of_winograd.
void emit_winograd(Kernel& k);

}  // namespace hologram::codegen
