// base/mt19937.cpp: the generator MT19937, many numbers at a time.
#include "base/mt19937.h"

#include <algorithm>
#include <cstring>

#include "base/for_each_isa.h"

namespace hologram {
namespace {

// Vectors as wide as any instruction set has them, at any address: the compiler cuts them where
// registers are narrower.
#define HOLOGRAM_VECTOR(bytes, align) __attribute__((vector_size(bytes), aligned(align), may_alias))
using Words = uint32_t HOLOGRAM_VECTOR(64, 4);
using Longs = uint64_t HOLOGRAM_VECTOR(64, 4);
using Flags = uint8_t HOLOGRAM_VECTOR(8, 1);
#undef HOLOGRAM_VECTOR
constexpr uint32_t lanes = 16;
constexpr uint32_t n = Mt19937::words, middle = 397;

template <typename T>
inline __attribute__((always_inline)) void twist_at(uint32_t* here, int distance) {
  const T mixed =
      (*reinterpret_cast<T*>(here) & 0x80000000u) | (*reinterpret_cast<T*>(here + 1) & 0x7fffffffu);
  const T odd = *reinterpret_cast<T*>(here + 1) & 1u;
  *reinterpret_cast<T*>(here) =
      *reinterpret_cast<T*>(here + distance) ^ (mixed >> 1) ^ (-odd & 0x9908b0dfu);
}

// The words [first, last), each from the one `distance` away and its two neighbours. Vectors hold
// no word that is read after it was written: `distance` is more than their lanes.
inline __attribute__((always_inline)) void twist(uint32_t* s, uint32_t first, uint32_t last,
                                                 int distance) {
  uint32_t i = first;
  for (; i + lanes <= last; i += lanes) twist_at<Words>(s + i, distance);
  for (; i < last; ++i) twist_at<uint32_t>(s + i, distance);
}

inline __attribute__((always_inline)) void next_state(uint32_t* s) {
  twist(s, 0, n - middle, middle);
  s[n] = s[0];  // the neighbour of the last word
  twist(s, n - middle, n, static_cast<int>(middle) - static_cast<int>(n));
}

// The next `count` words, `count` at most what is left of the state; the place behind `to` may be
// written.
inline __attribute__((always_inline)) void temper(const uint32_t* from, uint32_t* to,
                                                  size_t count) {
  for (size_t i = 0; i < count; i += lanes) {
    Words y = *reinterpret_cast<const Words*>(from + i);
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    y ^= y >> 18;
    *reinterpret_cast<Words*>(to + i) = y;
  }
}

constexpr size_t block = 8 * n;

// The next `count` numbers, at most `block`.
inline __attribute__((always_inline)) void fill(Mt19937& from, uint32_t* to, size_t count) {
  uint32_t padded[n + lanes] = {};
  std::memcpy(padded, from.state.data(), sizeof from.state);
  while (count > 0) {
    if (from.next >= n) {
      next_state(padded);
      from.next = 0;
    }
    const size_t some = std::min<size_t>(count, n - from.next);
    temper(padded + from.next, to, some);
    from.next += static_cast<uint32_t>(some);
    to += some;
    count -= some;
  }
  std::memcpy(from.state.data(), padded, sizeof from.state);
}

HOLOGRAM_FOR_EACH_ISA void some_below(Mt19937& from, uint64_t below, uint8_t* out, size_t count) {
  uint32_t raw[block + lanes];
  fill(from, raw, 2 * count);
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const Longs v = *reinterpret_cast<Longs*>(raw + 2 * i);  // the first number is the low half
    const Longs bits = ((v << 32) | (v >> 32)) & ((uint64_t{1} << 53) - 1);
    *reinterpret_cast<Flags*>(out + i) = __builtin_convertvector((bits - below) >> 63, Flags);
  }
  for (; i < count; ++i) {
    const uint64_t bits = (uint64_t{raw[2 * i] & 0x1fffffu} << 32) | raw[2 * i + 1];
    out[i] = bits < below;
  }
}

HOLOGRAM_FOR_EACH_ISA void some_words(Mt19937& from, uint32_t* out, size_t count) {
  fill(from, out, count);
}

}  // namespace

void draw_below(Mt19937& from, uint64_t below, uint8_t* out, size_t n) {
  for (size_t i = 0; i < n; i += block / 2)
    some_below(from, below, out + i, std::min(block / 2, n - i));
}

void draw_words(Mt19937& from, uint32_t* out, size_t n) { some_words(from, out, n); }

}  // namespace hologram
