// backend/cpu/backend.h: native kernels for the host's processor.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/target.h"

namespace hologram::cpu {

/// 1: the processor of this machine.
int device_count();
/// The backend for this machine, or for the instruction set that HOLOGRAM_CPU_ISA names (read at
/// each call). Throws Error(unavailable) when the machine lacks it, Error(invalid_argument) for an
/// unknown name.
std::unique_ptr<Backend> make_backend(int device = 0);
/// The backend for a target, whatever this machine is.
std::unique_ptr<Backend> make_backend(Target target);

}  // namespace hologram::cpu
