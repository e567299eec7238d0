// codegen/transpose.h: squares of lanes turned over in registers.
#pragma once

#include <vector>

#include "codegen/body.h"

namespace hologram::codegen {

/// `rows` are n vectors of n elements, n a power of two; element l of result r is element r of
/// rows[l]. `quarters`: rows of the quarters to begin with, n / 2 by default; larger ones are
/// exchanged already.
std::vector<Value*> transpose(Function& k, std::vector<Value*> rows, int quarters = 0);

}  // namespace hologram::codegen
