// backend/cpu/lanes/compile.h: lane programs → native object code.
#pragma once

#include <string>

#include "atlas/lane.h"
#include "backend/cpu/target.h"

namespace hologram::cpu {

/// Object code of a verified lane program: the function kernel_symbol runs one lane from its resume
/// point until it waits, ends or faults. bufs[0] is its LaneServices, bufs[1] its LaneState (see
/// atlas/lane_abi.h); it returns a LaneStatus.
std::string compile_lanes(const atlas::LaneProgram& program, const Target& target);

}  // namespace hologram::cpu
