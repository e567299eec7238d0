// codegen/winograd_plan.cpp: the analytic model behind the blocking of Winograd products.
#include "codegen/winograd_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

namespace hologram::codegen {
namespace {

// Sizes assumed for run-time dimensions when blocks are chosen.
constexpr int64_t assumed_tiles = 512, assumed_channels = 256;

int64_t or_else(const Expr& e, int64_t assumed) {
  return e.is_const() ? std::max<int64_t>(e.constant_value(), 1) : assumed;
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::vector<int64_t> WinogradPlan::tile_counts() const {
  if (!tiles.is_const() || tiles.constant_value() <= 0) return {};
  int64_t count = tiles.constant_value(), blocks = divide_up(count, block_tiles);
  if (count % blocks == 0) return {count / blocks};
  return {count / blocks, count / blocks + 1};
}

std::vector<int> WinogradPlan::heights() const {
  if (!tiles.is_const()) return tile_heights(tile, block_tiles);
  std::set<int> found;
  for (int64_t count : tile_counts()) found.insert(tile_height(tile, count, true));
  return {found.begin(), found.end()};
}

WinogradPlan plan_winograd(const atlas::Program& program, const Target& target) {
  const atlas::ProductBlock& b = program.product;
  auto extent = [&](size_t axis) { return b.axes[axis].extent; };
  WinogradPlan p;
  p.tile = tile_model(target, b.acc_type);
  p.tile_rows = ceil_div(extent(4) - Expr(2), 2);
  p.tile_columns = ceil_div(extent(5) - Expr(2), 2);
  p.tiles = extent(3) * p.tile_rows * p.tile_columns;
  p.panels = ceil_div(extent(1), p.tile.panel);

  int64_t tiles = or_else(p.tiles, assumed_tiles), channels = or_else(extent(6), assumed_channels);
  int64_t panels = or_else(p.panels, divide_up(assumed_channels, p.tile.panel));
  // Every unit transforms its pixels anew: with four panels that is 4 % of its work.
  p.block_panels = divide_up(panels, divide_up(panels, 4));
  int64_t columns = divide_up(panels, p.block_panels);
  if (const char* e = std::getenv("WP")) p.block_panels = atoi(e);
  // Pixels of a unit in half of the second-level cache; but weights are read once per unit, so
  // that few tiles would make them the limit.
  int64_t half_l2 = (target.vector_bytes == 64 ? 1024 : 512) * 1024 / 2;
  int64_t least = 2 * p.tile.max_rows;
  int64_t most =
      std::max(half_l2 / (64 * channels), int64_t{channels >= 512 ? 64 : 4 * p.tile.max_rows + 1});
  p.block_tiles = std::clamp(divide_up(tiles * columns, 16), least, std::max(least, most));
  if (const char* e = std::getenv("WT")) p.block_tiles = atoi(e);
  p.block_tiles = std::min(p.block_tiles, tiles);
  p.tile_units = ceil_div(p.tiles, p.block_tiles);
  p.panel_units = ceil_div(p.panels, p.block_panels);
  p.units = p.tile_units * p.panel_units;
  return p;
}

Launch launch_of_winograd(const atlas::Program& program, const Target& target) {
  WinogradPlan p = plan_winograd(program, target);
  const Expr& channels = program.product.axes[6].extent;
  // A cycle is 0.25 ns.
  Expr rows = min(p.tiles, p.block_tiles), panels = min(p.panels, p.block_panels);
  Expr per_panel = (channels * Expr(2000) + Expr(10'000)) * Expr(p.tile.vectors);
  Launch launch;
  launch.total = p.units;
  launch.unit_work = rows * panels * per_panel + Expr(20'000);
  if (launch.unit_work.is_const())
    launch.grain = std::max<int64_t>(1, 15'000'000 / launch.unit_work.constant_value());
  else
    launch.grain = max(Expr(1), floor_div(Expr(15'000'000), launch.unit_work));
  return launch;
}

}  // namespace hologram::codegen
