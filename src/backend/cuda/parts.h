// backend/cuda/parts.h: what CTAs that share a point's work have left in the workspace.
#pragma once

#include <functional>

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Adds up what parts [0, parts) (i32, at least one) left, in ascending order: `load` reads a
/// part's number, several are under way at a time; `add` gives the total behind it. The builder
/// stands behind the loop then.
Value* add_parts(CudaFunction& k, Value* parts, Value* start,
                 const std::function<Value*(Value* part)>& load,
                 const std::function<Value*(Value* part, Value* value, Value* total)>& add);

}  // namespace hologram::cuda
