// backend/cpu/loops/half_vectors.h: loops that wait for memory, by vectors of half a register. No
// LLVM in here.
#pragma once

#include "atlas/program.h"
#include "backend/cpu/target.h"

namespace hologram::cpu {

/// The target as the program's kernel uses it: where the processor goes through memory faster by
/// halves of its registers (Processor::half_vectors), loops that do little else have vectors of
/// those, and any other program the whole ones.
Target target_for(const atlas::Program& program, const Target& target);

}  // namespace hologram::cpu
