// codegen/transpose.cpp: squares of lanes turned over in registers.
#include "codegen/transpose.h"

namespace hologram::codegen {

// Swaps the off-diagonal quarters of the square, then of each quarter, and so on (Eklundh 1972).
std::vector<Value*> transpose(Function& k, std::vector<Value*> rows, int quarters) {
  auto n = static_cast<int>(rows.size());
  for (int half = quarters ? quarters : n / 2; half > 0; half /= 2) {
    std::vector<int> upper, lower;
    for (int l = 0; l < n; ++l) {
      bool right = l & half;
      upper.push_back(right ? n + l - half : l);
      lower.push_back(right ? n + l : l + half);
    }
    for (int r = 0; r < n; ++r) {
      if (r & half) continue;
      Value *&a = rows[static_cast<size_t>(r)], *&b = rows[static_cast<size_t>(r + half)];
      Value* above = k.ir.CreateShuffleVector(a, b, upper);
      b = k.ir.CreateShuffleVector(a, b, lower);
      a = above;
    }
  }
  return rows;
}

}  // namespace hologram::codegen
