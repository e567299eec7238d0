// backend/cuda/loops/rows.h: loops whose points have rows: reductions, scans, serial stages.
#pragma once

#include "backend/cuda/loops/team.h"

namespace hologram::cuda {

void emit_rows(CudaFunction& k, Mapping mapping);

}  // namespace hologram::cuda
