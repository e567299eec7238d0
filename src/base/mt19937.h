// base/mt19937.h: the generator MT19937, many numbers at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hologram {

/// The state of a Mersenne twister (Matsumoto and Nishimura 1998): `next` of its 624 words have
/// been used, all of them where it is 624.
struct Mt19937 {
  static constexpr uint32_t words = 624;
  std::array<uint32_t, words> state;
  uint32_t next;
};

/// The next n numbers of 64 bits, each of two of 32, the first the high half: writes to out[i]
/// whether the lowest 53 bits are less than `below` (at most 2^53).
void draw_below(Mt19937& from, uint64_t below, uint8_t* out, size_t n);

/// The next n numbers of 32 bits: writes their lowest 24 bits over 2^24.
void draw_uniform(Mt19937& from, float* out, size_t n);

}  // namespace hologram
