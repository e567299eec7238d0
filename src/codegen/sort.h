// codegen/sort.h: sort blocks: a stable radix sort of each row.
#pragma once

#include "codegen/body.h"

namespace hologram::codegen {

Launch launch_of_sort(const atlas::Program& program, const Target& target);

/// Emits the kernel of a sort program.
void emit_sort(Kernel& k);

}  // namespace hologram::codegen
