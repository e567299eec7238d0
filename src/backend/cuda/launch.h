// backend/cuda/launch.h: steps of plans as launches on a stream.
#pragma once

#include "backend/cuda/kernel.h"
#include "backend/cuda/log.h"
#include "backend/cuda/memory.h"

namespace hologram::cuda {

/// `waits`: a launch ends when its work is done, and says what went wrong there.
std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        DeviceMemory& memory, Log& log, bool waits);

}  // namespace hologram::cuda
