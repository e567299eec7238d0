// backend/cuda/loops/scan.h: scans along a row.
#pragma once

#include <functional>

#include "backend/cuda/loops/team.h"

namespace hologram::cuda {

/// A scan stage over `count` (i64) elements by a warp; `first`: number of its first running
/// accumulator; `fix` gives a scope the coordinate of an element.
void emit_scan(Scope& point, Team& team, const atlas::Stage& stage, int first, Value* count,
               const std::function<void(Scope&, Value*)>& fix);

}  // namespace hologram::cuda
