// backend/cpu/tiles/plan.cpp: how products of tiles are cut into units.
//
// A tile product takes a cycle for each row, by Intel's manual: five rows are one tile of 5, 17 two
// of 9 (18 cycles in place of 32), 100 seven of 15. The first eight groups of rows of a unit fetch
// the next panel. Parts: sums stay in memory until the last one.
//
// Terms: the table's cycles for each tile product, waiting for the bytes of a step that come from
// the second-level cache, 0.6 cycles to split a number of the left operand, 1.5 for one of a right
// operand that is packed for the call.
#include <algorithm>

#include "atlas/tile_math.h"
#include "backend/cpu/choices.h"
#include "backend/cpu/cost.h"
#include "backend/cpu/products/panels.h"
#include "backend/cpu/products/plan.h"
#include "base/error.h"

namespace hologram::cpu {
namespace {

// Fewer rows wait for the right operand, which packing for the call reads once more.
constexpr int64_t least_given_rows = 64;
constexpr int64_t full_tile = 16;

const Expr& extent(const atlas::ProductBlock& b, int axis) {
  return b.axes[static_cast<size_t>(b.batch_rank + axis)].extent;
}

bool multiple_of(const Expr& e, int64_t of) { return e.is_const() && e.constant_value() % of == 0; }

// As many tiles as a known number of rows takes, all of one height: a tile product takes a cycle
// for each row.
int rows_of_tile(const Expr& m) {
  if (!m.is_const()) return full_tile;
  const int64_t rows = std::max<int64_t>(m.constant_value(), 1);
  return static_cast<int>(divide_up(rows, divide_up(rows, full_tile)));
}

// What a unit reads and writes again and again: a block of 512 values of k of its rows, as much of
// a panel and of the one that is fetched behind it, and its sums where there are several such
// blocks.
int64_t unit_bytes(const TileProduct& t, int64_t steps) {
  const int64_t block = std::min(steps, block_steps) * 2 * full_tile * 64 * t.planes();
  const int64_t sums =
      t.blocked() ? t.block_groups * t.block_panels * 4 * full_tile * full_tile * 4 : 0;
  return (t.block_groups + 2) * block + sums;
}

// Up to 256 rows and 512 columns, as long as that leaves an eighth of the second-level cache to the
// epilogue's operands. Fewer, first of the columns, until there are 32 units, and some for each
// thread, or a unit takes only 40,000 cycles.
void choose_unit(TileProduct& t, int64_t batch, int64_t threads, int64_t second_level) {
  int64_t groups = divide_up(size_or(t.m, cost::assumed_rows), t.group_rows());
  int64_t panels = divide_up(size_or(t.part, cost::assumed_columns), t.tile.panel) * t.parts;
  int64_t steps = divide_up(size_or(t.k, cost::assumed_depth), t.step());
  int64_t cycles = steps * t.step_cycles();
  int64_t row_bytes = steps * 2 * full_tile * 64 * t.planes();
  int64_t target = std::clamp<int64_t>(
      batch * groups * panels * cycles / std::max<int64_t>(32, cost::units_each * threads),
      static_cast<int64_t>(t.parts > 1 ? cost::short_unit : cost::long_unit), 4'000'000);
  int64_t most_groups = std::clamp<int64_t>(cost::shared / row_bytes, 1, 8);
  t.block_groups = std::min(groups, most_groups);
  t.block_panels = std::min<int64_t>(panels, 16);
  auto too_large = [&] { return unit_bytes(t, steps) > second_level / 8 * 7; };
  while (t.block_panels > 8 && too_large()) t.block_panels = divide_up(t.block_panels, 2);
  while (t.block_groups > 2 && too_large()) t.block_groups = divide_up(t.block_groups, 2);
  auto too_long = [&] { return t.block_groups * t.block_panels * cycles > target; };
  while (t.block_panels > 4 && too_long()) t.block_panels = divide_up(t.block_panels, 2);
  while (t.block_groups > 2 && too_long()) t.block_groups = divide_up(t.block_groups, 2);
  while (t.block_panels > 1 && too_long()) t.block_panels = divide_up(t.block_panels, 2);
  while (t.block_groups > 1 && too_long()) t.block_groups = divide_up(t.block_groups, 2);
  t.block_panels = divide_up(t.block_panels, t.parts) * t.parts;
}

// What is known of one with tiles, for those whose rows of the table say nothing of them.
const Processor& with_known_tiles(const Processor& p) {
  return p.tile_cycles > 0 ? p : *find_processor("sapphire-rapids");
}

// Cycles of the tile products of a step of two tiles of rows and two of columns.
double product_cycles(const Processor& p, int terms) {
  return 4 * p.tile_cycles * static_cast<double>(atlas::tile_pairs(terms).size());
}

// Bytes of such a step that come from the second-level cache: rows, and columns unless a panel's
// block leaves a third of the first level free.
double far_bytes(const Processor& p, int terms) {
  const int64_t block = block_steps * terms * plane_bytes;
  return static_cast<double>(terms * plane_bytes * (block * 3 <= p.first_level * 2 ? 1 : 2));
}

// Cycles that tile products wait for one: what the measured share of three terms leaves; all of it
// where none was measured.
double wait_for_byte(const Processor& p) {
  if (p.tile_share == 0) return 1 / p.second_level_rate;
  return product_cycles(p, 3) * (1 / p.tile_share - 1) / far_bytes(p, 3);
}

// And to split and copy numbers of the left operand, and 1.5 cycles for one of the right operand,
// which goes to memory and back.
double split_cycles(int64_t m, int64_t n, int64_t k, bool packed_once) {
  return static_cast<double>(m * k) * cost::split_number +
         static_cast<double>(n * k) * (packed_once ? 0 : 1.5);
}

}  // namespace

double fma_cycles(const Processor& p, int64_t m, int64_t n, int64_t k) {
  return static_cast<double>(m * n) * static_cast<double>(k) / p.multiply_adds;
}

double tile_cycles(const Processor& processor, int64_t m, int64_t n, int64_t k, int terms) {
  const Processor& p = with_known_tiles(processor);
  const auto columns = static_cast<double>(divide_up(n, 2 * full_tile));
  const auto steps = static_cast<double>(divide_up(k, atlas::tile_step));
  const auto groups = static_cast<double>(divide_up(m, full_tile)) / 2;
  const double of_rows = static_cast<double>(rows_of_tile(Expr(m))) / full_tile;
  const double waits = far_bytes(p, terms) * wait_for_byte(p);
  return groups * columns * steps * of_rows * (product_cycles(p, terms) + waits);
}

int TileProduct::step_cycles() const {
  return 4 * rows * (terms ? static_cast<int>(atlas::tile_pairs(terms).size()) : 1);
}

bool TileProduct::blocked() const {
  return parts > 1 || !steps.is_const() || steps.constant_value() > block_steps;
}

int terms_for(const Target& target, const atlas::ProductBlock& b, bool packed_once) {
  if (!target.tiles || b.reproducible || b.acc_type != DType::f32) return 0;
  int64_t m = size_or(extent(b, 0), cost::assumed_rows),
          n = size_or(extent(b, 1), cost::assumed_columns);
  int64_t k = size_or(extent(b, 2), cost::assumed_depth);
  // Few rows wait for the right operand, which a product of tiles reads once more to pack it.
  if (m < (packed_once ? 5 : least_given_rows) || n < 16 || k < atlas::tile_step) return 0;
  if (b.operand_type == DType::bf16) return 1;
  if (b.operand_type != DType::f32) return 0;
  int terms = 3 - b.precision;
  if (!terms_allowed(target, terms)) return 0;
  const Processor& p = *target.processor;
  double chains = fma_cycles(p, m, n, k) / least_gain;
  const double tiles = tile_cycles(p, m, n, k, terms) + split_cycles(m, n, k, packed_once);
  return tiles < chains ? terms : 0;
}

bool packs_given_bytes(const Target& target, const atlas::ProductBlock& b) {
  return target.tiles && b.acc_type == DType::i32 &&
         (b.operand_type == DType::i8 || b.operand_type == DType::u8) &&
         panel_group(target, b.operand_type, b.acc_type) == 4 &&
         size_or(extent(b, 0), cost::assumed_rows) >= least_given_rows &&
         size_or(extent(b, 1), cost::assumed_columns) >= 16 &&
         size_or(extent(b, 2), cost::assumed_depth) >= 2 * atlas::tile_step;
}

std::optional<TileProduct> plan_tile_product(const atlas::Program& program, const Target& target) {
  const atlas::ProductBlock& b = program.product();
  bool bytes = b.terms == 0 && target.tiles && b.packed_rhs >= 0 && b.panel_group == 4 &&
               (b.operand_type == DType::i8 || b.operand_type == DType::u8) &&
               b.acc_type == DType::i32;
  if (b.terms == 0 && (!bytes || program.has_tail())) return std::nullopt;
  TileProduct t{.tile = tile_model(target, b.acc_type),
                .terms = b.terms,
                .prefetch = target.tile_prefetch,
                .m = extent(b, 0),
                .n = extent(b, 1),
                .k = extent(b, 2),
                .steps = {},
                .rows = rows_of_tile(extent(b, 0)),
                .groups = {},
                .parts = b.parts,
                .part = b.parts > 1 ? extent(b, 3) : extent(b, 1),
                .panels = {},
                .lhs = {},
                .block_groups = 1,
                .block_panels = 1,
                .m_units = {},
                .n_units = {},
                .units = {}};
  if (!target.tiles || b.packed_rhs < 0 || b.panel_width != t.tile.panel)
    fail(ErrorCode::unsupported, "codegen: products of terms need tiles and panels of {} columns",
         t.tile.panel);
  t.steps = ceil_div(t.k, t.step());
  t.groups = ceil_div(t.m, t.group_rows());
  t.panels = ceil_div(t.part, t.tile.panel) * Expr(t.parts);
  auto lhs = strided_load(b.lhs, b.batch_rank, b.batch_rank + 2);
  if (b.terms == 1 && b.operand_type == DType::bf16 && lhs && lhs->y_stride.is(1) &&
      multiple_of(t.m, 16) && multiple_of(t.k, t.step()))
    t.lhs = lhs;
  int64_t batch = 1;
  for (int i = 0; i < b.batch_rank; ++i) batch *= size_or(b.axes[static_cast<size_t>(i)].extent, 1);
  choose_unit(t, batch, target.threads, with_known_tiles(*target.processor).second_level);
  t.m_units = ceil_div(t.groups, t.block_groups);
  t.n_units = ceil_div(t.panels, t.block_panels);
  t.units = t.m_units * t.n_units;
  for (int i = 0; i < b.batch_rank; ++i) t.units *= b.axes[static_cast<size_t>(i)].extent;
  return t;
}

Launch launch_of(const TileProduct& tiles, const atlas::Program&, const Target&) {
  // The tiles, packing the rows, the epilogue of 1,024 elements.
  Expr groups = min(tiles.groups, tiles.block_groups);
  Expr panels = min(tiles.panels, tiles.block_panels);
  Expr work = groups * panels *
                  (tiles.steps * (tiles.step_cycles() * cost::cycle) + Expr(400 * cost::cycle)) +
              groups * tiles.steps * Expr(tiles.lhs ? 0 : 25 * tiles.group_rows() * cost::cycle) +
              Expr(cost::unit);
  return {tiles.units, 1, work};
}

}  // namespace hologram::cpu
