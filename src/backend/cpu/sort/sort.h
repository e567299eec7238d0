// backend/cpu/sort/sort.h: sort blocks: a stable radix sort of each row.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/units.h"

namespace hologram::cpu {

/// Nothing is chosen: the program and the target say it all.
struct SortPlan {};

Launch launch_of(const SortPlan& plan, const atlas::Program& program, const Target& target);

/// Emits the kernel of a sort program.
void emit(CpuFunction& k, const SortPlan& plan);

}  // namespace hologram::cpu
