// runtime/run_program.h: runs one block program by itself.
#pragma once

#include <span>

#include "atlas/program.h"
#include "runtime/runtime.h"

namespace hologram::runtime {

/// Memory that a program's buffer names, in bytes.
using Bytes = std::span<std::byte>;

/// Runs a verified block program over its whole iteration space on the calling thread. `buffers`:
/// one for each buffer that is not scratch, in order; `symbols` the values of its symbols. Throws
/// Error(invalid_argument) where the number of either is wrong, a buffer is too small or not
/// aligned to its element, or an index of the data leaves its range; Error(division_by_zero) where
/// an integer was divided by zero.
void run_program(Runtime& runtime, const atlas::Program& program, std::span<const Bytes> buffers,
                 std::span<const int64_t> symbols);

}  // namespace hologram::runtime
