// backend/webgpu/launch.h: steps of plans as dispatches.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "backend/launcher.h"
#include "backend/notes.h"
#include "backend/webgpu/memory.h"

namespace hologram::webgpu {

/// What has been launched so far.
struct Counts {
  std::atomic<uint64_t> dispatches{0}, submissions{0}, host_runs{0};
};

/// Of sizes that exceed what the device runs, a step's kernel is the host's, which is noted.
std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        DeviceMemory& memory, Counts& counts, Notes& notes);

}  // namespace hologram::webgpu
