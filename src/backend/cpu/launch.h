// backend/cpu/launch.h: plans run by one native function.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/load.h"
#include "backend/cpu/target.h"
#include "base/single_flight.h"

namespace hologram::cpu {

/// Entry functions that are being compiled.
using EntriesInProgress = SingleFlight<std::shared_ptr<LoadedKernel>>;

/// The launcher for these steps. Its function comes from `store` or is put there, keyed by the
/// steps and `code_key`; threads that need the same one at once compile it once.
std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        const Target& target, std::string_view code_key,
                                        CodeStore& store, EntriesInProgress& in_progress);

}  // namespace hologram::cpu
