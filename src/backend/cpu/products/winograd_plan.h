// backend/cpu/products/winograd_plan.h: how a Winograd product is cut into units. No LLVM in here.
#pragma once

#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// The choices for one Winograd product on one target; winograd_plan.cpp gives the model.
struct WinogradPlan {
  TileModel tile;
  Expr tile_rows, tile_columns;  ///< tiles of 2 x 2 results down and across an image
  Expr tiles;                    ///< of all images
  Expr panels;                   ///< of results' channels
  int64_t block_tiles;           ///< most tiles of a unit
  int64_t block_panels;          ///< most panels of a unit
  Expr tile_units, panel_units;
  Expr units;  ///< in all
  /// Tiles vary fastest among units, so that threads read the same weights at a time; else panels,
  /// so that neighbouring units of a thread share their pixels.
  bool tiles_fastest;

  /// The numbers of tiles that units have, if they are known.
  std::vector<int64_t> tile_counts() const { return even_blocks(tiles, block_tiles); }
  /// The heights of register tiles that can occur.
  std::vector<int> heights() const { return block_heights(tile, tiles, block_tiles); }
};

WinogradPlan plan_winograd(const atlas::Program& program, const Target& target);

Launch launch_of(const WinogradPlan& plan, const atlas::Program& program, const Target& target);

}  // namespace hologram::cpu
