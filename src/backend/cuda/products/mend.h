// backend/cuda/products/mend.h: sums by terms that are not finite.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// A sum of float32 or, where it is not finite, the chain of multiply-adds over all `depth` (i64)
/// values of k. `point` has the coordinates of the result, and the builder stands at its end.
Value* mend_sum(CudaFunction& k, Scope& point, Value* sum, Value* depth);

/// Whether a float32 is finite, i1; of a vector, whether all of them are.
Value* is_finite(CudaFunction& k, Value* numbers);

}  // namespace hologram::cuda
