// backend/cpu/products/plan.cpp: the analytic model behind products' blocking.
//
// Left operand: read in place where k is contiguous and nothing is computed on it, since a
// broadcast from memory costs no more than one from a packed panel. Right operand: panels packed
// ahead; in place where n is contiguous and there is little to gain (two tiles of rows, at most 64
// KiB); else packed per unit.
//
// Rows of a unit: its left block should take at most half of the second-level cache, 24 to 72 rows
// (bytes: 256). A panel is then read once per unit from wherever it lies, 128 bytes per k against
// 12 to 36 cycles of arithmetic. Up to 1,032 rows where the right operand is distant: larger than 1
// MiB, so that a panel's first tile waits for the third-level cache or memory, or copied per unit,
// a line of every row from another page. With 16 registers, whose second-level cache is small, and
// panels packed ahead, which tiles fetch in time: 72 to 256 rows wherever the right operand lies,
// since a left block from the third level costs more (a sixth of 1024 x 1536 x 384 on Zen 3).
//
// Work of a unit: total / 64 (distant: / 32), at least 40,000 and at most 1,000,000 cycles
// (distant: 4,000,000), by two multiply-adds a cycle and 32 bytes of the right operand a cycle:
// enough units to balance, none shorter than the cost of handing it out. The number of panels is
// cut first, then rows. At least 8,000 for gates, and for up to four rows with a matrix of up to 2
// MiB, of which each core then keeps a part in its cache; with larger matrices each unit would wait
// for memory anew. balance_few_units: nine units leave one of two threads a fifth less to do.
//
// There is no blocking of k for the cache but for long sums (long_sum_plan.cpp): a panel streams
// from the second level at 128 bytes per 12 cycles, far below what that delivers, and the epilogue
// can follow at once.
#include "backend/cpu/products/plan.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/cost.h"
#include "backend/cpu/operands/runs.h"
#include "backend/cpu/products/panels.h"
#include "backend/cpu/products/winograd_plan.h"
#include "base/error.h"

namespace hologram::cpu {
namespace {

// Rows up to which reading the right operand takes longer than the arithmetic.
constexpr int64_t most_waiting_rows = 4;

// Whether reading a panel first costs much more than reading it again: it is copied, or lies beyond
// the second-level cache.
bool distant_rhs(const ProductPlan& p, int64_t element) {
  if (p.rhs == RhsPath::panels || p.rhs == RhsPath::transposed) return true;
  return size_or(p.k, cost::assumed_depth) * size_or(p.n, cost::assumed_columns) * element >
         cost::distant;
}

bool of_bytes(const ProductPlan& p) { return p.dots == Dots::bytes || p.dots == Dots::words; }

// How often a unit's rows reuse what was read or copied of the right operand decides how many rows
// it has: its own block of the left operand should stay in half of the second-level cache, unless
// the right operand is distant. 86 tiles, so that 1,024 rows are one block.
int64_t rows_by_cache(const ProductPlan& p, const Target& target, int64_t element) {
  int64_t depth = size_or(p.k, cost::assumed_depth);
  int64_t fit = cost::half_second_level(target) / (depth * element);
  if (p.rhs == RhsPath::packed && p.tile.two_heights) return std::clamp<int64_t>(fit, 72, 256);
  if (distant_rhs(p, element)) return 86 * 12;
  int64_t most = of_bytes(p) ? 256 : 72;
  return std::clamp<int64_t>(fit, 24, most);
}

// Whether a left operand that lies along m is turned over when it is copied. Copied as it lies, a
// tile's rows of a step are a part of a line of the first-level cache: where they are less than
// half of one, the lines of all steps and a panel leave that cache before the next tile comes, and
// the second level, 32 bytes a cycle, gives two lines in each step of six cycles.
bool turns_lhs(const ProductPlan& p, const atlas::Body& lhs, int m_axis, int64_t element) {
  constexpr int64_t line = 64;
  if (p.lhs != LhsPath::columns || p.dots != Dots::none || first_stride(lhs, m_axis) != 1 ||
      !p.k.is_const() || size_or(p.n, cost::assumed_columns) <= p.tile.panel)
    return false;
  const int64_t steps = std::min(p.k.constant_value(), atlas::product_block);
  return 2 * p.tile.max_rows * element < line &&
         steps * (line + p.tile.panel * element) > cost::first_level;
}

// Rows of a unit that has all columns, for what follows its rows: these and its block of the left
// operand should stay in half of the second-level cache. 64 units of two register tiles or more
// (more for more than 16 threads), a multiple of 8 and of the threads, so that these have equally
// many.
int64_t rows_before_tail(const ProductPlan& p, const Target& target, int64_t element) {
  int64_t depth = size_or(p.k, cost::assumed_depth), columns = size_or(p.n, cost::assumed_columns);
  int64_t rows = size_or(p.m, cost::assumed_rows), least = 2 * p.tile.max_rows;
  int64_t most = std::max(least, cost::half_second_level(target) / (depth * element + columns * 4));
  int64_t wanted =
      std::max<int64_t>(p.tile.two_heights ? 32 : 64, cost::units_each * target.threads);
  int64_t even = std::max(8, target.threads);
  int64_t units = divide_up(rows, std::clamp(divide_up(rows, wanted), least, most));
  return divide_up(rows, units > 8 ? divide_up(units, even) * even : units);
}

// Cycles of `rows` x one panel over the whole depth: two multiply-adds a cycle, or the panel's
// bytes.
double panel_cycles(const ProductPlan& p, double rows, double depth) {
  double arithmetic = std::max(rows, 2.0) * p.tile.vectors / 2;
  double memory = static_cast<double>(p.tile.panel) * size_of(p.rhs_storage) / cost::bytes_in_cycle;
  return std::max(arithmetic, memory) * depth;
}

// Of few units, one more or less for a thread counts: among somewhat smaller blocks, those that the
// threads finish first.
void balance_few_units(ProductPlan& p, int64_t threads) {
  const int64_t few = 8 * threads;
  constexpr double least_gain = 0.96;
  if (!p.m.is_const() || !p.n.is_const() || !p.k.is_const()) return;
  int64_t m = p.m.constant_value(), panels = divide_up(p.n.constant_value(), p.tile.panel),
          depth = std::max<int64_t>(p.k.constant_value(), 1);
  int64_t groups = divide_up(panels, p.panel_group);
  int64_t m_units = divide_up(m, p.block_rows), n_units = divide_up(panels, p.block_panels);
  if (m <= 0 || m_units * n_units < 2 || m_units * n_units > few) return;
  auto cycles = [&](int64_t rows_units, int64_t column_units) {  // of a unit
    return static_cast<double>(covered_rows(p.tile, divide_up(m, rows_units)) * depth * panels) /
           static_cast<double>(column_units);
  };
  auto cost = [&](int64_t rows_units, int64_t column_units) {
    double one = cycles(rows_units, column_units) + cost::handing_out;
    return static_cast<double>(divide_up(rows_units * column_units, threads)) * one;
  };
  int64_t best_m = m_units, best_n = n_units;
  const int64_t most_m = std::min(std::max(2 * m_units, threads), divide_up(m, p.tile.max_rows));
  const int64_t most_n = std::min(std::max(2 * n_units, threads), groups);
  for (int64_t i = m_units; i <= most_m; ++i)
    for (int64_t j = n_units; j <= most_n; ++j)
      if (cycles(i, j) >= cost::balanced_unit && cost(i, j) < cost(best_m, best_n))
        best_m = i, best_n = j;
  if (cost(best_m, best_n) > least_gain * cost(m_units, n_units)) return;
  p.block_rows = divide_up(m, best_m);
  p.block_panels = divide_up(groups, best_n) * p.panel_group;
}

}  // namespace

ProductPlan plan_product(const atlas::Program& program, const Target& target) {
  const atlas::ProductBlock& b = program.product();
  if (compute_type(b.acc_type) != b.acc_type || b.acc_type == DType::b8 ||
      b.acc_type == DType::host)
    fail(ErrorCode::unsupported, "codegen: products cannot accumulate in {}", name_of(b.acc_type));
  ProductPlan p;
  p.tile = tile_model(target, b);
  int m_axis = b.batch_rank, n_axis = m_axis + 1, k_axis = m_axis + 2;
  auto extent = [&](int axis) { return b.axes[static_cast<size_t>(axis)].extent; };
  p.m = extent(m_axis);
  p.n = extent(n_axis);
  p.k = extent(k_axis);
  p.parts = b.parts;
  p.part = b.parts > 1 ? extent(k_axis + 1) : p.n;
  p.panels = ceil_div(p.part, p.tile.panel) * Expr(p.parts);

  auto lhs = strided_load(b.lhs, m_axis, k_axis);
  bool plain = b.operand_type == b.acc_type;
  auto m_stride = first_stride(b.lhs, m_axis), k_stride = first_stride(b.lhs, k_axis);
  bool words = dots_for(target, b.operand_type, b.acc_type) != Dots::none;
  if (!m_stride && k_stride &&
      !words) {  // rows that lie side by side in runs: the planes of several images
    auto runs = split_axis(b.lhs, m_axis, p.m, k_axis + 1);
    if (runs && runs->levels.size() == 2 && first_stride(runs->body, runs->levels[1].axis) == 1)
      m_stride = 1;
  }
  if (lhs && plain && lhs->y_stride.is(1)) {
    p.lhs = LhsPath::direct;
    p.lhs_load = lhs;
  } else {
    p.lhs = m_stride == 1 && k_stride != 1 ? LhsPath::columns : LhsPath::rows;
  }

  p.rhs_storage = b.acc_type;
  if (b.packed_rhs >= 0) {
    if (b.panel_width != p.tile.panel)
      fail(ErrorCode::unsupported, "codegen: panels of {} columns, expected {} on {}",
           b.panel_width, p.tile.panel, name_of(target.isa));
    p.rhs = RhsPath::packed;
    p.dots = b.panel_group > 1 ? dots_for(target, b.operand_type, b.acc_type) : Dots::none;
    if (b.panel_group != group_of(p.dots))
      fail(ErrorCode::unsupported, "codegen: panels of groups of {} {}", b.panel_group,
           name_of(b.operand_type));
    p.rhs_storage = program.buffers[static_cast<size_t>(b.packed_rhs)].dtype;
  } else {
    auto rhs = strided_load(b.rhs, n_axis, k_axis);
    int64_t bytes = size_or(p.k, cost::assumed_depth) * size_or(p.n, cost::assumed_columns) *
                    size_of(b.acc_type);
    bool few_rows = p.m.is_const() && p.m.constant_value() <= 2 * p.tile.max_rows;
    if (rhs && plain && rhs->x_stride.is(1) && (few_rows || bytes <= 64 * 1024)) {
      p.rhs = RhsPath::direct;
      p.rhs_load = rhs;
    } else {
      p.rhs = first_stride(b.rhs, k_axis) == 1 && first_stride(b.rhs, n_axis) != 1
                  ? RhsPath::transposed
                  : RhsPath::panels;
      // Groups of an operand that lies along k are read as one number each.
      p.dots = few_rows ? Dots::none : dots_for(target, b.operand_type, b.acc_type);
      bool whole = p.k.is_const() && p.k.constant_value() % group_of(p.dots) == 0;
      if (p.rhs == RhsPath::transposed) {
        if (rhs && whole && rhs->y_stride.is(1))
          p.rhs_load = rhs;
        else
          p.dots = Dots::none;
      }
    }
  }

  if (p.dots != Dots::none) {
    p.group = group_of(p.dots);
    p.keeps_tiny = p.dots == Dots::bf16 && b.reproducible;
    // The instruction takes an unsigned and a signed operand: the left one gets the sign that the
    // right one has not.
    p.flips_lhs = p.dots == Dots::bytes && !b.mixed;
    p.unsigned_rhs = b.rhs_type() == DType::u8;
    if (p.lhs == LhsPath::direct) p.lhs = LhsPath::rows;
    p.lhs_load = std::nullopt;
    p.rhs_storage = p.dots == Dots::words && p.rhs == RhsPath::packed ? DType::i16 : b.acc_type;
  }
  p.steps = ceil_div(p.k, p.group);
  int element = size_of(b.acc_type) / p.group;
  if (turns_lhs(p, b.lhs, m_axis, element)) p.lhs = LhsPath::turned;

  // Units of 10 µs or more, up to 64 of them for large products (32 where each copies panels),
  // whole register tiles high.
  int64_t rows = size_or(p.m, cost::assumed_rows);
  int64_t panels = divide_up(size_or(p.part, cost::assumed_columns), p.tile.panel) * p.parts;
  auto depth =
      static_cast<double>(std::max<int64_t>(size_or(p.k, cost::assumed_depth) / p.group, 1));
  int64_t limit = std::min(rows_by_cache(p, target, element), rows);
  bool distant = distant_rhs(p, element);
  int64_t least_rows = (distant ? 12 : 2) * p.tile.max_rows;
  double batch = 1;
  for (int k = 0; k < b.batch_rank; ++k) batch *= static_cast<double>(size_or(extent(k), 1));
  double total =
      batch * static_cast<double>(panels) * panel_cycles(p, static_cast<double>(rows), depth);
  // The gates of a step are waited for, and few rows wait for the matrix, of which each core then
  // keeps a part in its cache: threads share these from 2 µs each.
  bool stays = size_or(p.n, cost::assumed_columns) * size_or(p.k, cost::assumed_depth) *
                   size_of(b.acc_type) <=
               cost::kept;
  const bool waiting = p.m.is_const() && p.m.constant_value() <= most_waiting_rows;
  p.fine = p.parts > 1 || (waiting && stays);
  p.one_stream = waiting && !stays && p.rhs == RhsPath::packed && target.processor->one_stream;
  const double threads = target.threads;
  double least_cycles = p.fine ? cost::short_unit : cost::long_unit;
  if (!p.fine && threads > 2)  // two for each thread rather than long ones
    least_cycles = std::clamp<double>(total / (2 * threads), cost::balanced_unit, least_cycles);
  const double wanted = std::max<double>(distant ? 32 : 64, cost::units_each * threads);
  double target_cycles = std::clamp(total / wanted, least_cycles, distant ? 4e6 : 1e6);
  const bool fetched = p.rhs == RhsPath::packed && p.tile.two_heights;
  double narrow = distant || fetched || of_bytes(p) ? 2 : 8;
  double wide = target_cycles / panel_cycles(p, static_cast<double>(limit), depth);
  if (wide < narrow / 2) {  // fewer rows rather than very narrow units
    double by_work = target_cycles / (depth * p.tile.vectors / 2) / narrow;
    int64_t tiles = std::max<int64_t>(1, std::llround(by_work / p.tile.max_rows));
    limit = std::clamp<int64_t>(tiles * p.tile.max_rows, std::min(limit, least_rows), limit);
    wide = target_cycles / panel_cycles(p, static_cast<double>(limit), depth);
  }
  p.block_rows = std::max<int64_t>(limit, 1);
  p.block_panels = std::clamp<int64_t>(std::llround(wide), 1, panels);
  // Tiles of few rows span several panels: no unit should end within a span.
  int64_t lowest = p.m.is_const() ? std::min<int64_t>(rows, p.tile.max_rows) : 1;
  p.panel_group = p.panels_for(static_cast<int>(lowest));
  if (program.has_tail()) {
    p.block_rows = rows_before_tail(p, target, element);
    p.block_panels = panels;
  }
  if (!p.m.is_const() && p.block_panels < p.panel_group) p.panel_group = 1;
  if (p.parts > 1) p.panel_group = p.parts;
  p.block_panels = std::max<int64_t>(p.block_panels / p.panel_group, 1) * p.panel_group;
  if (p.parts == 1 && !p.fine && p.dots == Dots::none && batch == 1 && !program.has_tail())
    balance_few_units(p, target.threads);
  if (!program.has_tail()) plan_long_sum(p, b, batch, target);
  p.m_units = ceil_div(p.m, p.block_rows);
  p.n_units = program.has_tail() ? Expr(1) : ceil_div(p.panels, p.block_panels);
  p.units = p.m_units * p.n_units;
  for (int k = 0; k < b.batch_rank; ++k) p.units = p.units * extent(k);
  return p;
}

Launch launch_of(const ProductPlan& p, const atlas::Program& program, const Target&) {
  Expr rows = min(p.m, p.block_rows), panels = min(p.panels, p.block_panels);
  // Besides the arithmetic: a panel from the cache, and the epilogue.
  Expr per_panel = (rows * (p.tile.vectors * cost::multiply_add) + 4 * cost::cycle) * p.steps +
                   rows * (p.tile.vectors * 6 * cost::cycle);
  Launch launch;
  launch.total = p.units;
  launch.unit_work = rows * 0 + panels * per_panel + cost::unit;
  if (program.has_tail())
    launch.unit_work += rows * p.n * Expr(300);  // an element of rows that are in the cache
  return launch;
}

}  // namespace hologram::cpu
