// backend/cpu/loops/bounds.h: exponentials whose arguments are known to be no larger than 0.
#pragma once

#include "atlas/program.h"

namespace hologram::cpu {

/// Marks each e^x of x = v - max(v), v along the row of the maximum, by Instr::bits = 1: what it
/// does to bound large arguments may be left out.
void mark_bounded(atlas::Program& program);

}  // namespace hologram::cpu
