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
// 12, so that eight kernels, and three wider ones, serve any size. With 16 registers known sizes
// take tiles of two heights, 6 and 5 or 5 and 4: of one height that divides 64 or 128 rows, tiles
// of 4 rows keep just as many chains as are needed, and load more for each multiply-add.
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
  return {.lanes = lanes,
          .vectors = 2,
          .panel = 2 * lanes,
          .max_rows = many_registers ? 12 : 6,
          .two_heights = !many_registers};
}

bool may_round_twice(const atlas::ProductBlock& product) {
  return product.precision > 0 && !product.reproducible;
}

TileModel tile_model(const Target& target, const atlas::ProductBlock& product) {
  TileModel tile = tile_model(target, product.acc_type);
  // V8 loads all broadcasts of a step before it multiplies: one register each, of 15.
  if (target.isa == Isa::wasm && may_round_twice(product)) tile.max_rows = 4;
  if (product.parts > 1) tile.two_heights = false;  // all of a unit's tiles span as many panels
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
  if (exact && tiles > 1 && !tile.two_heights) {  // the height that computes fewest rows twice
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

int64_t lower_from(const TileModel& tile, int64_t rows) {
  constexpr int64_t least_chains = 8;
  int64_t height = tile_height(tile, rows, true), tiles = divide_up(rows, height);
  if (!tile.two_heights || tiles == 1 || (height - 1) * tile.vectors < least_chains) return tiles;
  return rows - tiles * (height - 1);
}

int64_t covered_rows(const TileModel& tile, int64_t rows) {
  int64_t height = tile_height(tile, rows, true), tiles = divide_up(rows, height);
  return tiles * height - (tiles - lower_from(tile, rows));
}

std::vector<int> exact_heights(const TileModel& tile, int64_t rows) {
  int height = tile_height(tile, rows, true);
  if (lower_from(tile, rows) == divide_up(rows, height)) return {height};
  return {height - 1, height};
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
  for (int64_t rows : even_blocks(total, block))
    for (int height : exact_heights(tile, rows)) heights.insert(height);
  return {heights.begin(), heights.end()};
}

bool ends_in_half_a_vector(const TileModel& tile, const Expr& columns) {
  return tile.lanes >= 16 && columns.is(tile.panel - tile.lanes / 2);
}

int64_t size_or(const Expr& e, int64_t assumed) {
  return std::max<int64_t>(e.is_const() ? e.constant_value() : assumed, 1);
}

}  // namespace hologram::cpu
