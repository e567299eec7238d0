// interp/lane.h: executes lane programs over a launch grid.
#pragma once

#include "atlas/lane_host.h"

namespace hologram::interp {

using atlas::Dim3;
using atlas::LaneLaunch;
using atlas::LaneMemory;

/// Runs every lane to its end, in the order that atlas::LaneHost states. The program need not be
/// verified: types are checked as it runs. Memory keeps what was written before a fault. Throws
/// atlas::LaneError.
void run(const atlas::LaneProgram& program, const LaneLaunch& launch, LaneMemory& memory);

}  // namespace hologram::interp
