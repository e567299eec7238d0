// gpu/operands.h: how the operands of products and of attention lie in memory.
#pragma once

#include "atlas/program.h"

namespace hologram::gpu {

/// Whether neighbours along the axis are neighbours in memory for the first load that depends on
/// it.
bool lies_along(const atlas::Body& body, int axis);
/// Whether the first load that depends on either axis has its neighbours along `depth_axis`.
bool runs_along(const atlas::Body& body, int axis, int depth_axis);

}  // namespace hologram::gpu
