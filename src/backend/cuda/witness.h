// backend/cuda/witness.h: whether machine code of a wide kernel multiplies from registers as it
// should.
//
// ptxas before 13.3, and the driver's own assembler of those versions, may use the registers of a
// wgmma's left factor again before it has read them
// (https://github.com/triton-lang/triton/pull/11781). Which kernels that happens in depends on how
// registers were given out: each is asked itself.
#pragma once

#include "backend/cuda/assembler.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/log.h"
#include "backend/cuda/memory.h"

namespace hologram::cuda {

/// Whether that is known of an assembler or, where there is none, of a driver for CUDA
/// `driver_version`.
bool reuses_registers(const Assembler* assembler, int driver_version);

/// Runs the module's wide kernel and its other one on small integers, of which sums are exact in
/// any order, and compares the results; those of attention, whose weights are then 0 and 1, but for
/// their last bits. Open: sizes or memory for it were not found. `words`: the first difference.
Verdict hear_witness(const atlas::Program& program, const LoadedKernel& kernel,
                     DeviceMemory& memory, Log& log, std::string& words);

}  // namespace hologram::cuda
