// codegen/transpose.h: squares of lanes turned over in registers.
#pragma once

#include <vector>

#include "codegen/body.h"

namespace hologram::codegen {

/// `rows` are n vectors of n elements, n a power of two; element l of result r is element r of
/// rows[l].
std::vector<Value*> transpose(Function& k, std::vector<Value*> rows);

}  // namespace hologram::codegen
