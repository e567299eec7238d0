// backend/cuda/compile.h: Atlas programs → PTX, through LLVM.
#pragma once

#include <optional>
#include <string>

#include "atlas/program.h"
#include "backend/cuda/facts.h"
#include "backend/cuda/settings.h"

namespace hologram::cuda {

/// Why a verified program is not rendered for GPUs yet, or nothing.
std::optional<std::string> unrendered(const atlas::Program& program);

/// PTX of a program that is rendered (before expand_math), for a GPU of this compute capability or
/// a later one. Thread-safe. Throws Error(internal) if LLVM fails. `block`: threads of a point
/// kernel's CTA.
Stored compile(const atlas::Program& program, int capability = 80, int block = usual_block);
/// Whether GPUs of this compute capability get PTX of their own.
bool is_special(const atlas::Program& program, int capability);

/// LLVM IR or PTX, for HOLOGRAM_DUMP.
std::string dump_llvm(const atlas::Program& program, int capability = 80, int block = usual_block);
std::string dump_ptx(const atlas::Program& program, int capability = 80, int block = usual_block);

}  // namespace hologram::cuda
