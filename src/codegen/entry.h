// codegen/entry.h: one native function that runs a whole plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "atlas/entry.h"
#include "codegen/codegen.h"

namespace hologram::codegen {

/// Object code of the entry function (symbol kernel_symbol) for these steps.
std::string compile_entry(std::span<const atlas::EntryStep> steps, const Target& target);

}  // namespace hologram::codegen
