// backend/cuda/launch.h: steps of plans as launches on a stream.
#pragma once

#include <atomic>

#include "backend/cuda/kernel.h"
#include "backend/cuda/memory.h"

namespace hologram::cuda {

/// `host_runs` counts the steps that the host's kernels ran.
std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        DeviceMemory& memory, std::atomic<uint64_t>& host_runs);

}  // namespace hologram::cuda
