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

/// The next n numbers of 32 bits. `out` has room for `draw_room` more.
void draw_words(Mt19937& from, uint32_t* out, size_t n);
inline constexpr size_t draw_room = 16;

}  // namespace hologram
