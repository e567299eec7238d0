// base/checksum.h: a checksum at the speed of memory, against damage by accident.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hologram {

/// 64 bits over the content and its length. Every change within one aligned run of 8 bytes changes
/// it, others but with a chance of 2^-64. Who wants to can make collisions: fingerprint() is for
/// content that others write.
uint64_t checksum(std::span<const std::byte> data);

}  // namespace hologram
