// backend/cuda/loops/rows.h: loops whose points have rows: reductions, scans, serial stages.
#pragma once

#include "backend/cuda/loops/team.h"

namespace hologram::cuda {

/// How the rows of a block are laid over threads.
Mapping mapping_of(const atlas::Program& program);

void emit_rows(CudaFunction& k, Mapping mapping);

}  // namespace hologram::cuda
