// backend/cpu/launch.h: plans run by one native function.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/target.h"

namespace hologram::cpu {

/// The launcher for these steps. Its function comes from `store` or is put there, keyed by the
/// steps and `code_key`.
std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        const Target& target, std::string_view code_key,
                                        CodeStore& store);

}  // namespace hologram::cpu
