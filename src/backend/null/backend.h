// backend/null/backend.h: compiles everything and runs nothing.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace hologram::null {

/// 1: it needs no device.
int device_count();
/// A backend that verifies and encodes programs; its kernels return at once and leave their buffers
/// as they are.
std::unique_ptr<Backend> make_backend();

}  // namespace hologram::null
