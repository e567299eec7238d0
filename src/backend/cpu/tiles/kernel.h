// backend/cpu/tiles/kernel.h: AMX: tile configuration and register kernels of 32 × 32 sums.
#pragma once

#include <array>

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// Rows and words of a row of one tile; rows of the two that a kernel multiplies by; a row's bytes.
inline constexpr int64_t tile_square = 16, tile_rows = 32, tile_row_bytes = 64;

/// Rows of each tile.
using RowsOfTiles = std::array<uint8_t, 8>;
/// `rows` of sums and of a, 16 of b, as TileKernel has its tiles by default.
RowsOfTiles rows_of_tiles(int rows = 16);
/// Configures all eight tiles as rows of 64 bytes, in `config` (64 bytes, 64-byte aligned). A
/// product takes a cycle for each row of a.
void emit_tile_config(CpuFunction& k, Value* config, const RowsOfTiles& rows = rows_of_tiles());
void emit_tile_release(CpuFunction& k);

/// out[rows × 32 of 4 bytes] = the sum over `steps` tile products of the rows of one or two tiles
/// of a and 32 (16) columns of b. A step of a is, per term, so many rows of 64 bytes `row` bytes
/// apart; a step of b is, per term, 16 rows of two tiles (one) side by side.
struct TileKernel {
  int terms;                                  ///< of bfloat16; 0: bytes
  bool signed_lhs = true, signed_rhs = true;  ///< bytes
  int tiles;                                  ///< of rows: 1 or 2
  int64_t a_step;                             ///< bytes from step to step
  int64_t a_term;                             ///< bytes from term to term
  std::optional<int64_t> row;
  int rows = 16;         ///< of a tile of a, as it is configured
  bool prefetch = true;  ///< the lines of a step to come, see ahead()
  bool tail = false;     ///< bytes: one step more, whose b lies elsewhere, unless that is null
  /// What is fetched to the first-level cache are the rows behind these, not those of later steps.
  bool next_rows = false;
  bool panels = true;        ///< and to the second-level cache, what `ahead` points to
  int columns = 2;           ///< tiles of columns: 1 or 2
  bool accumulates = false;  ///< sums begin with what stands in out
  int64_t out_row = 0;       ///< bytes between rows of out; 0: as wide as the columns
  // Tile registers: the first one of sums and of a's rows, and whether all of these take that one.
  int first_sum = 0, first_row = 4;
  bool one_row_tile = false;

  /// Arguments: a, row, b, steps, out, ahead (memory to fetch, lines_ahead lines per step), tail.
  llvm::Function* emit(CpuFunction& k) const;

  int planes() const { return terms ? terms : 1; }
  /// Bytes of b per step.
  int64_t b_step() const { return int64_t{planes()} * columns * 1024; }
  /// What a step fetches to the first-level cache: rows, and perhaps columns, of a step so many
  /// steps later, spread evenly over its tile products.
  struct Ahead {
    int steps;
    bool columns;
  };
  Ahead ahead() const { return next_rows ? Ahead{0, false} : Ahead{2, terms > 1}; }
  /// Lines of rows and of columns that it fetches.
  int64_t row_lines() const { return prefetch ? int64_t{planes()} * tiles * rows : 0; }
  int64_t column_lines() const { return prefetch && ahead().columns ? b_step() / 64 : 0; }
  /// So many calls of 16 steps fetch a panel's block.
  static constexpr int64_t calls_ahead = 8;
  int64_t lines_ahead() const { return panels ? b_step() / 64 / calls_ahead : 0; }
};

}  // namespace hologram::cpu
