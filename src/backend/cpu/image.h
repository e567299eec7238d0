// backend/cpu/image.h: objects laid out as code that runs wherever it lies.
#pragma once

#include <span>

#include "atlas/entry.h"
#include "atlas/program.h"
#include "backend/code_image.h"
#include "backend/cpu/target.h"

namespace hologram::cpu {

/// Links stored kernels (units.h), by program, and the entry function for these steps. Throws as
/// link() does.
CodeImage lay_out(std::span<const atlas::Program> programs, std::span<const std::string> stored,
                  std::span<const atlas::EntryStep> steps, const Target& target);

}  // namespace hologram::cpu
