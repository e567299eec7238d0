// backend/cpu/sort/sort.h: sort blocks: a stable radix sort of each row.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/units.h"

namespace hologram::cpu {

Launch launch_of_sort(const atlas::Program& program, const Target& target);

/// Emits the kernel of a sort program.
void emit_sort(CpuFunction& k);

}  // namespace hologram::cpu
