// base/checksum.cpp: a checksum at the speed of memory, against damage by accident.
#include "base/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace hologram {
namespace {

constexpr size_t lanes = 8, block = lanes * sizeof(uint64_t);
constexpr uint64_t odd = 0x9e3779b97f4a7c15;  // 2^64 by the golden ratio

// One to one in each argument, so that one changed word changes the sum.
uint64_t step(uint64_t sum, uint64_t word) { return std::rotl((sum ^ word) * odd, 29); }

void add(std::array<uint64_t, lanes>& sums, const std::byte* from) {
  for (size_t i = 0; i < lanes; ++i) {
    uint64_t word;
    std::memcpy(&word, from + i * sizeof word, sizeof word);
    sums[i] = step(sums[i], word);
  }
}

}  // namespace

uint64_t checksum(std::span<const std::byte> data) {
  std::array<uint64_t, lanes> sums;
  for (size_t i = 0; i < lanes; ++i) sums[i] = i + 1;
  size_t at = 0;
  for (; data.size() - at >= block; at += block) add(sums, data.data() + at);
  if (at < data.size()) {
    std::array<std::byte, block> rest{};
    std::memcpy(rest.data(), data.data() + at, data.size() - at);
    add(sums, rest.data());
  }
  uint64_t out = data.size();
  for (const uint64_t sum : sums) out = step(out, sum);
  return out ^ out >> 32;
}

}  // namespace hologram
