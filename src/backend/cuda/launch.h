// backend/cuda/launch.h: steps of plans as launches on a stream.
#pragma once

#include <atomic>

#include "backend/cuda/kernel.h"
#include "backend/cuda/memory.h"

namespace hologram::cuda {

/// Of all launchers of a backend.
struct Counts {
  std::atomic<uint64_t> host_runs{0};       ///< steps that the host's kernels ran
  std::atomic<uint64_t> graph_launches{0};  ///< runs of launches that were one graph
};

/// `waits`: a launch ends when its work is done, and says what went wrong there.
std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        DeviceMemory& memory, Counts& counts, bool waits);

}  // namespace hologram::cuda
