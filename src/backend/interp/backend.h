// backend/interp/backend.h: the interpreter behind the common backend interface.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace hologram::interp {

/// 1: the host.
int device_count();
/// A backend that executes programs as they are. Slow; for comparison.
std::unique_ptr<Backend> make_backend(int device = 0);

}  // namespace hologram::interp
