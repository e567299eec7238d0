// interp/tiles.cpp: products of sums of bfloat16 terms (atlas/tile_math.h).
#include "interp/tiles.h"

#include <algorithm>

#include "atlas/tile_math.h"

namespace hologram::interp {
namespace {

using atlas::Magnitudes;

// One step's product of a row of one plane and a column of another.
float tile_product(const uint16_t* x, const std::vector<uint16_t>& y, int64_t columns, int64_t n,
                   int64_t begin, int64_t end) {
  float chains[2] = {0, 0};
  for (int64_t k = begin; k < begin + atlas::tile_step; ++k) {
    float a = k < end ? atlas::widen_bf16(x[k]) : 0;
    float b = k < end ? atlas::widen_bf16(y[static_cast<size_t>(k * columns + n)]) : 0;
    chains[k % 2] = atlas::tile_fma(a, b, chains[k % 2]);
  }
  return atlas::tile_add(chains[0], chains[1]);
}

bool accepted(Magnitudes row, Magnitudes column, float sum) {
  Magnitudes both = std::min(row, column);
  if (both != Magnitudes::wide) return both == Magnitudes::narrow;
  return std::abs(sum) >= atlas::least_wide_sum && std::isfinite(sum);
}

}  // namespace

TermPlanes split_terms(const std::vector<uint64_t>& bits, int64_t columns, int terms) {
  TermPlanes t{{}, columns};
  t.planes.assign(static_cast<size_t>(terms), std::vector<uint16_t>(bits.size()));
  for (size_t i = 0; i < bits.size(); ++i) {
    auto values = atlas::terms_of(std::bit_cast<float>(static_cast<uint32_t>(bits[i])), terms);
    for (size_t k = 0; k < t.planes.size(); ++k) t.planes[k][i] = values[k];
  }
  return t;
}

void tile_row(const TermPlanes& x, int64_t row, const TermPlanes& y, const uint64_t* chain,
              uint64_t* out) {
  int64_t depth = x.columns, columns = y.columns;
  auto pairs = atlas::tile_pairs(static_cast<int>(x.planes.size()));
  auto line = [&](int term) { return x.planes[static_cast<size_t>(term)].data() + row * depth; };
  auto row_class = Magnitudes::narrow;
  for (int64_t k = 0; k < depth; ++k)
    row_class = std::min(row_class, atlas::magnitudes_of(line(0)[k]));
  for (int64_t n = 0; n < columns; ++n) {
    float total = 0;
    for (int64_t block = 0; block < depth; block += atlas::tile_k_block) {
      float sum = 0;
      int64_t end = std::min(depth, block + atlas::tile_k_block);
      for (int64_t k = block; k < end; k += atlas::tile_step)
        for (atlas::TermPair p : pairs)
          sum = atlas::tile_add(sum, tile_product(line(p.lhs), y.planes[static_cast<size_t>(p.rhs)],
                                                  columns, n, k, end));
      total = block == 0 ? sum : total + sum;
    }
    out[n] = std::bit_cast<uint32_t>(total);
    if (!chain) continue;
    auto column_class = Magnitudes::narrow;
    for (int64_t k = 0; k < depth; ++k)
      column_class = std::min(
          column_class, atlas::magnitudes_of(y.planes[0][static_cast<size_t>(k * columns + n)]));
    if (!accepted(row_class, column_class, total)) out[n] = chain[n];
  }
}

}  // namespace hologram::interp
