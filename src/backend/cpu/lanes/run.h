// backend/cpu/lanes/run.h: native lane programs.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/target.h"

namespace hologram::cpu {

/// Verifies a lane program and compiles it for the target. Throws atlas::LaneError.
std::string lane_code(const atlas::LaneProgram& program, const Target& target);
/// The program with its machine code. Throws Error(corrupt) for what is none.
std::unique_ptr<LaneKernel> load_lanes(const atlas::LaneProgram& program, std::string_view code);

}  // namespace hologram::cpu
