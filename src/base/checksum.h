// base/checksum.h: a checksum at the speed of memory, against damage by accident.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hologram {

/// XXH3 in 64 bits. Who wants to can make collisions: fingerprint() is for content that others
/// write.
uint64_t checksum(std::span<const std::byte> data);

}  // namespace hologram
