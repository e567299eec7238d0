// backend/cpu/wasm_image.h: kernels for WebAssembly as one module beside the runtime's.
#pragma once

#include <span>
#include <string_view>

#include "atlas/entry.h"
#include "atlas/program.h"
#include "backend/code_image.h"
#include "backend/cpu/target.h"

namespace hologram::cpu {

/// Whether every module gets this symbol from the runtime: the place of its stack and data, and
/// arithmetic on 128 bits, for which WebAssembly has no instructions.
bool comes_with_modules(std::string_view symbol);

/// Links stored kernels (units.h), by program, and the entry function for these steps into a module
/// that imports the runtime's memory, table of functions and stack pointer. It exports its
/// functions by the numbers that the image names them with, and says in a section "dylink.0", as
/// side modules do, how much memory its data take. Throws Error(unsupported) for an object that
/// needs more.
CodeImage lay_out_module(std::span<const atlas::Program> programs,
                         std::span<const std::string> stored,
                         std::span<const atlas::EntryStep> steps, const Target& target);

}  // namespace hologram::cpu
