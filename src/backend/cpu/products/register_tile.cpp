// backend/cpu/products/register_tile.cpp: the sizes of products' register tiles.
//
// A tile is two vectors wide and 12 rows high where there are 32 vector registers: 24 accumulators,
// two vectors of the right operand, broadcasts of the left. 6 rows where there are 16. A
// multiply-add takes four cycles and two start per cycle, so fewer than eight chains leave the
// units idle: tiles of one to three rows span several panels.
//
// A unit's rows are covered by tiles of one height; the last one reaches back and computes rows
// again, which its epilogue skips. Known sizes take the height from 8 to 12 that computes fewest
// rows again (2 to 3 % at 64 and 128 rows); run-time sizes choose among 1, 2, 3, 4, 6, 8, 10 and
// 12, so that eight kernels, and three wider ones, serve any size.
//
// Where all columns fit into a panel's first vector the other one is left out. Where they end in
// the middle of the second (24 with AVX-512) that is a vector of half the length, in the epilogue
// too: with 256-bit data paths a quarter of the multiply-adds less.
#include "backend/cpu/products/register_tile.h"

#include <algorithm>
#include <set>

namespace hologram::cpu {

TileModel tile_model(const Target& target, DType acc_type) {
  int lanes = target.vector_bytes / std::max(4, size_of(acc_type));
  bool many_registers = target.vector_bytes == 64 || target.isa == Isa::neon;
  return {.lanes = lanes, .vectors = 2, .panel = 2 * lanes, .max_rows = many_registers ? 12 : 6};
}

bool may_round_twice(const atlas::ProductBlock& product) {
  return product.precision > 0 && !product.reproducible;
}

TileModel tile_model(const Target& target, const atlas::ProductBlock& product) {
  TileModel tile = tile_model(target, product.acc_type);
  // V8 loads all broadcasts of a step before it multiplies: one register each, of 15.
  if (target.isa == Isa::wasm && may_round_twice(product)) tile.max_rows = 4;
  return tile;
}

int panels_for(const TileModel& tile, int rows) {
  int limit = tile.max_rows * tile.vectors;  // accumulators that fit
  for (int span : {4, 2})
    if (rows * tile.vectors * span <= std::min(limit, 12)) return span;
  return 1;
}

int tile_height(const TileModel& tile, int64_t rows, bool exact) {
  int64_t tiles = divide_up(rows, tile.max_rows), even_split = divide_up(rows, tiles);
  if (exact && tiles > 1) {  // the height that computes fewest rows twice
    int64_t best = even_split;
    for (int64_t height = even_split - 1; height >= tile.max_rows * 2 / 3; --height)
      if (divide_up(rows, height) * height < divide_up(rows, best) * best) best = height;
    return static_cast<int>(best);
  }
  if (exact || even_split <= 4) return static_cast<int>(even_split);
  if (tiles > 1 || even_split % 2 == 0) return static_cast<int>((even_split + 1) / 2 * 2);
  int64_t half = (rows + 1) / 2;
  return static_cast<int>(half == 5 ? 6 : half);
}

std::vector<int> tile_heights(const TileModel& tile, int64_t most) {
  std::set<int> heights;
  for (int64_t rows = 1; rows <= most; ++rows) heights.insert(tile_height(tile, rows, false));
  return {heights.begin(), heights.end()};
}

std::vector<int64_t> even_blocks(const Expr& total, int64_t block) {
  if (!total.is_const() || total.constant_value() <= 0) return {};
  int64_t all = total.constant_value(), blocks = divide_up(all, block);
  if (all % blocks == 0) return {all / blocks};
  return {all / blocks, all / blocks + 1};
}

std::vector<int> block_heights(const TileModel& tile, const Expr& total, int64_t block) {
  if (!total.is_const()) return tile_heights(tile, block);
  std::set<int> heights;
  for (int64_t rows : even_blocks(total, block)) heights.insert(tile_height(tile, rows, true));
  return {heights.begin(), heights.end()};
}

bool ends_in_half_a_vector(const TileModel& tile, const Expr& columns) {
  return tile.lanes >= 16 && columns.is(tile.panel - tile.lanes / 2);
}

int64_t size_or(const Expr& e, int64_t assumed) {
  return std::max<int64_t>(e.is_const() ? e.constant_value() : assumed, 1);
}

}  // namespace hologram::cpu
