// base/checksum.cpp: a checksum at the speed of memory, against damage by accident.
#include "base/checksum.h"

#include <xxhash.h>

namespace hologram {

uint64_t checksum(std::span<const std::byte> data) {
  return XXH3_64bits(data.data(), data.size());
}

}  // namespace hologram
