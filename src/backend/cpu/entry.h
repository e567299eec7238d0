// backend/cpu/entry.h: one native function that runs a whole plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "atlas/entry.h"
#include "backend/cpu/target.h"

namespace hologram::cpu {

/// Object code of the entry function (symbol kernel_symbol) for these steps.
std::string compile_entry(std::span<const atlas::EntryStep> steps, const Target& target);

}  // namespace hologram::cpu
