// backend/cpu/lanes.h: native lane programs.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "codegen/codegen.h"

namespace hologram::cpu {

/// Verifies a lane program and compiles it for the target. Throws atlas::LaneError.
std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program,
                                          const codegen::Target& target);

}  // namespace hologram::cpu
