// interp/interp.h: executes Atlas block programs; what a program means is what this does.
#pragma once

#include <atomic>
#include <cstdint>

#include "atlas/abi.h"
#include "atlas/program.h"

namespace hologram::interp {

/// Runs the whole iteration space of a verified program on which expand_math has run. `bufs` holds
/// one address per buffer that is not scratch, in order; `syms` the values of the program's
/// symbols. Data-dependent faults set bits of *sticky (atlas::StickyError; may be null). Throws
/// Error(internal) when an access leaves its buffer: such a program is wrong.
void run(const atlas::Program& program, void* const* bufs, const int64_t* syms,
         std::atomic<int32_t>* sticky);

}  // namespace hologram::interp
