// runtime/circuit.h: sigmatics circuits as Atlas programs on class memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "atlas/program.h"
#include "runtime/runtime.h"
#include "sigmatics/effects.h"

namespace hologram::runtime {

/// A program and the classes (or pages) that are its buffers, in order. Elements are float32.
struct CircuitKernel {
  atlas::Program program;
  std::vector<sigmatics::Operand> buffers;
};

/// The programs that do what `steps` (Effects::steps) say, one after the other. Neighbouring steps
/// share a program where all work on whole classes, or all on pages: each element is loaded and
/// stored once, copies and exchanges between them are renamings.
std::vector<CircuitKernel> lower_circuit(std::span<const sigmatics::Call> steps);

/// Runs programs of lower_circuit on class memory: 96 classes of 12,288 bytes, aligned to 64 bytes.
/// Throws Error(invalid_argument) for another size or alignment.
void run_circuit(Runtime& runtime, std::span<const CircuitKernel> kernels,
                 std::span<std::byte> memory);

}  // namespace hologram::runtime
