// archive/describe.h: what an archive holds, as JSON.
#pragma once

#include <string>

#include "archive/archive.h"

namespace hologram::archive {

/// An object with its producer, fingerprint, bytes, targets of code, methods and tensors:
/// hologram.h says more at hologram_archive_info().
std::string describe(const Archive& archive);

}  // namespace hologram::archive
