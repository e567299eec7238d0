// emulator/tensor_map.h: what a tensor map says, in the 128 bytes of the fake driver's.
#pragma once

#include <cstdint>
#include <cstring>

namespace ptx {

inline constexpr uint32_t tensor_map_mark = 0x7e550a01;

/// A box of up to five dimensions, the first one that of neighbours in memory.
struct TensorMap {
  uint64_t address = 0;  ///< first, as in a real one
  uint32_t mark = tensor_map_mark;
  uint8_t rank = 0, element = 0;  ///< bytes of an element
  uint8_t swizzle = 0;            ///< bytes of the pattern: 32, 64, 128; 0: none
  uint8_t unused = 0;
  uint32_t last[5] = {};  ///< size - 1
  uint16_t box[5] = {};
  uint16_t high[4] = {};  ///< of the strides from the second dimension on, in 16 bytes
  uint32_t low[4] = {};

  uint64_t size(int d) const { return uint64_t{last[d]} + 1; }
  /// Bytes from one to the next, of dimensions from 1 on.
  uint64_t stride(int d) const { return (uint64_t{high[d - 1]} << 32 | low[d - 1]) * 16; }
  uint64_t box_bytes() const {
    uint64_t n = element;
    for (int d = 0; d < rank; ++d) n *= box[d];
    return n;
  }
};
static_assert(sizeof(TensorMap) <= 128);

/// Where a byte of shared memory is under the pattern: 16-byte pieces change places with others of
/// the same row.
inline uint64_t swizzled(uint64_t address, int bytes) {
  const uint64_t pieces = bytes == 128 ? 0x70 : bytes == 64 ? 0x30 : bytes == 32 ? 0x10 : 0;
  return address ^ (address >> 3 & pieces);
}

}  // namespace ptx
