// backend/cuda/backend.h: the backend of NVIDIA's GPUs.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace hologram::cuda {

/// How many devices the driver finds; 0 where kernels do not run on the first one. Opens the
/// driver.
int device_count();
/// A backend for a device by the driver's number, that compiles programs to PTX and has the driver
/// run them. What it does not render yet runs on the host's processor, on copies. Throws
/// Error(unavailable) saying what is missing.
std::unique_ptr<Backend> make_backend(int device = 0);

}  // namespace hologram::cuda
