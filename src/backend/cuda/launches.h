// backend/cuda/launches.h: a kernel's launches for some sizes, with their parameters.
#pragma once

#include <vector>

#include "backend/cuda/graph.h"
#include "backend/cuda/grids.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/log.h"

namespace hologram::cuda {

/// Adds those of a grid with points. `words`: the addresses of the kernel's buffers, and its
/// symbols.
void add_launches(std::vector<Launch>& launches, const LoadedKernel& kernel, const Grid& grid,
                  std::vector<uint64_t> words, uint64_t workspace, CuPointer faults, Log& log);

}  // namespace hologram::cuda
