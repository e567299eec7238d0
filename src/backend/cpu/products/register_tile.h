// backend/cpu/products/register_tile.h: register tiles of products: how large they are, and how
// blocks are cut into them. No LLVM in here.
#pragma once

#include <cstdint>
#include <vector>

#include "atlas/program.h"
#include "backend/cpu/target.h"
#include "base/dtype.h"
#include "base/expr.h"

namespace hologram::cpu {

/// Registers and vectors of a target, for elements of one accumulation type.
struct TileModel {
  int lanes;     ///< elements per vector
  int vectors;   ///< vectors per panel row
  int panel;     ///< columns per panel: lanes * vectors
  int max_rows;  ///< rows of the largest register tile
  /// Known numbers of rows are covered by tiles of two heights that differ by one, without
  /// computing a row twice. Of few heights, those that divide a block of rows well may leave too
  /// few chains.
  bool two_heights = false;
};
TileModel tile_model(const Target& target, DType acc_type);
/// Likewise, for what a product does with them.
TileModel tile_model(const Target& target, const atlas::ProductBlock& product);
/// Whether the sums of a product need not be chains of fused multiply-adds.
bool may_round_twice(const atlas::ProductBlock& product);
/// Rows of each register tile of a block of `rows` rows (at least 1): the last tile reaches back
/// over rows of the one before, so that one height serves the block. `exact`: the best height (with
/// two_heights: of the first lower_from() tiles); else one of few, for blocks of any size.
int tile_height(const TileModel& tile, int64_t rows, bool exact);
/// How many of the tiles that cover a known number of rows are of that height; those behind them
/// have a row less.
int64_t lower_from(const TileModel& tile, int64_t rows);
/// Rows that those tiles compute, some of them twice.
int64_t covered_rows(const TileModel& tile, int64_t rows);
/// Their heights.
std::vector<int> exact_heights(const TileModel& tile, int64_t rows);
/// The heights that tile_height gives for 1 to `most` rows.
std::vector<int> tile_heights(const TileModel& tile, int64_t most);
/// Panels side by side that keep enough chains going in a tile of only `rows` rows.
int panels_for(const TileModel& tile, int rows);

/// `total` cut into as few equal blocks of at most `block` as there can be: the sizes that occur,
/// if they are known.
std::vector<int64_t> even_blocks(const Expr& total, int64_t block);
/// The heights of register tiles in those blocks.
std::vector<int> block_heights(const TileModel& tile, const Expr& total, int64_t block);

/// Whether the columns are those of one panel that ends in the middle of its last vector, with
/// vectors wide enough for half of one to take half of the multiply-adders.
bool ends_in_half_a_vector(const TileModel& tile, const Expr& columns);

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// A known size, or what is assumed for one that is only known at run time; at least 1.
int64_t size_or(const Expr& e, int64_t assumed);

}  // namespace hologram::cpu
