// backend/cpu/loops/place_scratch.h: row scratch that can live where the row's result goes.
#pragma once

#include "atlas/program.h"

namespace hologram::cpu {

/// Moves row scratch into the output that the row ends in, where each element's result takes the
/// place of the element it is made from: a long row then needs less of the caches.
void place_scratch(atlas::Program& program);

}  // namespace hologram::cpu
