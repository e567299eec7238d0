// backend/cpu/products/long_sum_plan.cpp: products whose sums are so long that units walk them in
// blocks (weights' gradients over all pixels or tokens).
//
// What a unit needs of all of k would leave the second-level cache before its next tile reads it.
// So it copies a block of k, a multiple of atlas::product_block, runs all of its tiles on that, and
// goes on; blocks of product_block are added in ascending order as ever, so that no bit differs. Of
// the ways to cut rows and panels, whose sums take a quarter of that cache and whose copies of one
// product_block half of it at most, the one is taken that copies and computes least for the
// threads.
#include <algorithm>
#include <limits>

#include "backend/cpu/cost.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {
namespace {

constexpr double copied_number = 0.5;  // cycles of a core, from memory

// A way to cut the rows and the groups of panels.
struct Cut {
  int64_t rows, panels;  // of a unit
  double units;
};

// Numbers of a step that tiles read again and again: a unit's rows and a panel.
int64_t held(const ProductPlan& p, int64_t rows) { return rows + p.tile.panel; }

// Cycles of all units for a step, shared by threads.
double cycles(const ProductPlan& p, const Cut& cut, int threads) {
  auto covered = static_cast<double>(covered_rows(p.tile, cut.rows));
  double arithmetic = covered * static_cast<double>(cut.panels * p.tile.vectors) / 2;
  auto copied = static_cast<double>(cut.panels * p.tile.panel);
  if (p.lhs != LhsPath::direct) copied += static_cast<double>(cut.rows);
  double rounds = std::max(
      1.0, static_cast<double>(divide_up(static_cast<int64_t>(cut.units), int64_t{threads})));
  return rounds * (arithmetic + copied * copied_number);
}

}  // namespace

void plan_long_sum(ProductPlan& p, const atlas::ProductBlock& block, double batch,
                   const Target& target) {
  if (!p.m.is_const() || !p.n.is_const() || !p.k.is_const() || p.parts > 1 ||
      p.dots != Dots::none || p.rhs == RhsPath::packed)
    return;
  const int64_t m = p.m.constant_value(), n = p.n.constant_value(), k = p.k.constant_value();
  const int64_t element = size_of(block.acc_type), room = cost::half_second_level(target);
  if (m < 1 || n < 1 || k <= atlas::product_block ||
      held(p, std::min(p.block_rows, m)) * k * element <= cost::distant)
    return;
  if (p.rhs == RhsPath::direct && m <= p.tile.max_rows) return;  // one tile reads a panel, once

  const int64_t groups = divide_up(divide_up(n, p.tile.panel), p.panel_group);
  double least = std::numeric_limits<double>::infinity();
  for (int64_t i = 1; i <= divide_up(m, p.tile.max_rows); ++i)
    for (int64_t j = 1; j <= groups; ++j) {
      Cut cut{divide_up(m, i), divide_up(groups, j) * p.panel_group,
              batch * static_cast<double>(i * j)};
      bool fits = 2 * cut.rows * cut.panels * p.tile.panel * element <= room &&
                  held(p, cut.rows) * atlas::product_block * element <= room;
      if (!fits || cycles(p, cut, target.threads) >= least) continue;
      least = cycles(p, cut, target.threads);
      p.block_rows = cut.rows;
      p.block_panels = cut.panels;
      int64_t blocks = room / 2 / (held(p, cut.rows) * atlas::product_block * element);
      blocks = std::clamp<int64_t>(blocks, 1, divide_up(k, atlas::product_block));
      p.block_depth = blocks * atlas::product_block;
    }
  // A panel's columns are then copied once, one row behind the other: tiles that read them in place
  // wait for memory (half as fast where they lie 384 bytes apart).
  if (p.rhs == RhsPath::direct) p.rhs = RhsPath::panels;
}

}  // namespace hologram::cpu
