// backend/cuda/loops/points.h: loops of points alone: a thread for each.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Fixes axes [first, last) of `axes` in `scope` to the coordinates of `number` (i64) in their
/// row-major space.
void fix_axes(Scope& scope, std::span<const atlas::Axis> axes, int first, int last, Value* number);

void emit_points(CudaFunction& k, Facts& facts);

}  // namespace hologram::cuda
