// backend/cpu/products/winograd_plan.cpp: the analytic model behind the blocking of Winograd
// products.
#include "backend/cpu/products/winograd_plan.h"
#include "backend/cpu/cost.h"

#include <algorithm>
#include <cmath>

namespace hologram::cpu {
namespace {

// Sizes assumed for run-time dimensions when blocks are chosen.
constexpr int64_t assumed_tiles = 512, assumed_channels = 256;

// Cycles of a unit of `tiles` tiles and `panels` panels of AVX-512: pixels' transforms, products of
// the rows that register tiles compute, results' transforms, and weights from the third-level cache
// or memory, four fifths of which arrive in time.
double unit_cycles(const TileModel& t, int64_t tiles, int64_t panels, int64_t channels) {
  auto n = static_cast<double>(tiles), p = static_cast<double>(panels),
       c = static_cast<double>(channels);
  auto rows = static_cast<double>(covered_rows(t, tiles));
  return n * 2.5 * c + p * (rows * 16 * c + n * 80 + 0.2 * 256 * c) + 2000;
}

struct Blocks {
  int64_t tiles, panels;
};

// The blocks of least work, where what the last units leave idle with the target's threads and
// twice as many counts too.
Blocks best_blocks(const TileModel& t, const Target& target, int64_t tiles, int64_t channels,
                   int64_t panels) {
  // Pixels of a unit in half of the second-level cache, but not so few tiles that weights, which
  // each unit reads once, become the limit.
  int64_t most = std::clamp<int64_t>(cost::half_second_level(target) / (64 * channels), 64, 96);
  int64_t least = std::min<int64_t>(tiles, 2 * t.max_rows);
  Blocks best{std::min(tiles, most), panels};
  double best_cost = 0;
  int64_t first = divide_up(tiles, most), last = std::min(divide_up(tiles, least), first + 32);
  for (int64_t n = first; n <= last; ++n)
    for (int64_t parts = 1; parts <= panels; ++parts) {
      Blocks b{divide_up(tiles, n), divide_up(panels, parts)};
      auto units = static_cast<double>(n * parts),
           cost = units * unit_cycles(t, b.tiles, b.panels, channels);
      for (double threads : {1.0 * target.threads, 2.0 * target.threads})
        cost *= std::ceil(units / threads) * threads / units;
      if (units > 16 && cost / units < 40e3) cost *= 2;  // too short to hand out
      if (best_cost == 0 || cost < best_cost) best = b, best_cost = cost;
    }
  return best;
}

}  // namespace

WinogradPlan plan_winograd(const atlas::Program& program, const Target& target) {
  const atlas::ProductBlock& b = program.product();
  auto extent = [&](size_t axis) { return b.axes[axis].extent; };
  WinogradPlan p;
  p.tile = tile_model(target, b);
  p.tile_rows = ceil_div(extent(4) - Expr(2), 2);
  p.tile_columns = ceil_div(extent(5) - Expr(2), 2);
  p.tiles = extent(3) * p.tile_rows * p.tile_columns;
  p.panels = ceil_div(extent(1), p.tile.panel);

  int64_t tiles = size_or(p.tiles, assumed_tiles), channels = size_or(extent(6), assumed_channels);
  int64_t panels = size_or(p.panels, divide_up(assumed_channels, p.tile.panel));
  Blocks blocks = best_blocks(p.tile, target, tiles, channels, panels);
  p.block_tiles = blocks.tiles;
  p.block_panels = blocks.panels;
  p.tile_units = ceil_div(p.tiles, p.block_tiles);
  p.panel_units = ceil_div(p.panels, p.block_panels);
  p.units = p.tile_units * p.panel_units;
  p.tiles_fastest = channels * panels * p.tile.panel * 64 > 2 * cost::half_second_level(target);
  return p;
}

Launch launch_of(const WinogradPlan& p, const atlas::Program& program, const Target&) {
  const Expr& channels = program.product().axes[6].extent;
  Expr rows = min(p.tiles, p.block_tiles), panels = min(p.panels, p.block_panels);
  Expr per_panel =
      (channels * Expr(8 * cost::cycle) + Expr(40 * cost::cycle)) * Expr(p.tile.vectors);
  Launch launch;
  launch.total = p.units;
  launch.unit_work = rows * panels * per_panel + Expr(cost::unit);
  return launch;
}

}  // namespace hologram::cpu
