// codegen/transpose.cpp: squares of lanes turned over in registers.
#include "codegen/transpose.h"

#include <algorithm>

namespace hologram::codegen {

// Swaps the off-diagonal quarters of the square, then of each quarter, and so on (Eklundh 1972).
// Within 16 bytes, the reach of most shuffles, rows are interleaved instead, by one element, by two
// and so on: the rows come out in bit-reversed order.
std::vector<Value*> transpose(Function& k, std::vector<Value*> rows, int quarters) {
  const auto n = static_cast<int>(rows.size());
  const auto bits = static_cast<int>(rows[0]->getType()->getScalarSizeInBits());
  const int within = std::min(n, 128 / bits);
  auto exchange = [&](int distance, const std::vector<int>& upper, const std::vector<int>& lower) {
    for (int r = 0; r < n; ++r) {
      if (r & distance) continue;
      Value *&a = rows[static_cast<size_t>(r)], *&b = rows[static_cast<size_t>(r + distance)];
      Value* above = k.ir.CreateShuffleVector(a, b, upper);
      b = k.ir.CreateShuffleVector(a, b, lower);
      a = above;
    }
  };
  for (int half = quarters ? quarters : n / 2; half >= within; half /= 2) {
    std::vector<int> upper, lower;
    for (int l = 0; l < n; ++l) {
      bool right = l & half;
      upper.push_back(right ? n + l - half : l);
      lower.push_back(right ? n + l : l + half);
    }
    exchange(half, upper, lower);
  }
  for (int group = 1; group < within; group *= 2) {
    std::vector<int> upper, lower;
    for (int l = 0; l < n; ++l) {
      const int place = l % within, from = l - place + place / (2 * group) * group + l % group;
      upper.push_back(from + (l & group ? n : 0));
      lower.push_back(upper.back() + within / 2);
    }
    exchange(group, upper, lower);
  }
  std::vector<Value*> ordered(rows.size());
  for (int r = 0; r < n; ++r) {
    int reversed = r - r % within;
    for (int bit = 1; bit < within; bit *= 2)
      if (r & bit) reversed += within / (2 * bit);
    ordered[static_cast<size_t>(reversed)] = rows[static_cast<size_t>(r)];
  }
  return ordered;
}

}  // namespace hologram::codegen
