// backend/cuda/backend.h: the backend of NVIDIA's GPUs.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace hologram::cuda {

/// 1 where a driver finds a device that kernels run on: the first one is used. Opens the driver.
int device_count();
/// A backend that compiles loops to PTX and has the driver run them. What it does not render yet
/// runs on the host's processor, on copies. Throws Error(unavailable) saying what is missing.
std::unique_ptr<Backend> make_backend();

}  // namespace hologram::cuda
