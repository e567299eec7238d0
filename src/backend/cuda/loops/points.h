// backend/cuda/loops/points.h: loops of points alone: a thread for each.
#pragma once

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// Fixes axes [first, last) of `axes` in `scope` to the coordinates of `number` (i64) in their
/// row-major space.
void fix_axes(Scope& scope, std::span<const atlas::Axis> axes, int first, int last, Value* number);

/// The same for the axes that `which` names, in this order.
void fix_axes(Scope& scope, std::span<const atlas::Axis> axes, std::span<const int> which,
              Value* number);

/// Takes the last coordinate, of `count`, off the number `rest` (i64) of a point.
Value* take_last(Scope& scope, Value*& rest, const Expr& count);

/// How many neighbours along the last parallel axis a thread takes, as vectors of 16 bytes or
/// fewer; 1 where vectors win nothing.
int neighbours_of(const atlas::Program& program);

void emit_points(CudaFunction& k, const Facts& facts, int neighbours);

}  // namespace hologram::cuda
