// schedule/check.h: planned programs against the rules of Atlas.
#pragma once

#include "atlas/program.h"

namespace hologram::schedule {

/// Throws Error(internal) with the program's text for one that atlas::verify() refuses: the fault
/// is the planner's, not of who asked for the plan.
void check_planned(const atlas::Program& program);

}  // namespace hologram::schedule
