// backend/cpu/products/winograd.h: products over the 3 x 3 windows of an image by Winograd's F(2x2,
// 3x3).
#pragma once

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// Emits the whole kernel of a product with `winograd` set. The units are those of
/// launch_of_winograd.
void emit_winograd(CpuFunction& k);

}  // namespace hologram::cpu
