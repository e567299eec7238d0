// codegen/sort_key.h: keys of sorts as unsigned numbers.
#pragma once

#include "codegen/function.h"

namespace hologram::codegen {

/// A key (one, or a vector of them) as an unsigned number of its type's bytes in the order wanted:
/// NaN is the largest, -0 equals +0; `descending` turns the order around.
Value* emit_sort_key(Function& k, DType type, bool descending, Value* x);

}  // namespace hologram::codegen
