// backend/null/backend.h: the backend of a device that is not there.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace hologram::null {

/// 1: it needs no device.
int device_count();
/// A backend whose programs are interpreted as work on the streams of a FakeDevice: whoever forgets
/// that a device's memory is not the host's, or that its work takes time, is found out.
std::unique_ptr<Backend> make_backend(int device = 0);

}  // namespace hologram::null
