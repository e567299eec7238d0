// backend/cpu/attention/plan.cpp: units and operand paths of attention.
#include "backend/cpu/attention/plan.h"

#include <algorithm>
#include <set>

#include "backend/cpu/attention/emit.h"
#include "backend/cpu/choices.h"
#include "backend/cpu/cost.h"
#include "base/error.h"

namespace hologram::cpu {

namespace {

// The sizes of the blocks of [0, total).
void add_blocks(std::set<int64_t>& sizes, int64_t total, int64_t block) {
  if (total >= block) sizes.insert(block);
  if (total % block) sizes.insert(total % block);
}

void find_counts(AttentionPlan& p, bool causal) {
  if (!p.queries.is_const() || p.query_block <= 0) return;
  std::set<int64_t> queries, keys;
  int64_t total = p.queries.constant_value();
  add_blocks(queries, total, p.query_block);
  p.query_counts = {queries.begin(), queries.end()};
  if (!p.keys.is_const()) return;
  int64_t all = p.keys.constant_value();
  add_blocks(keys, all, key_block);
  int64_t step = p.lanes == ScoreLanes::keys ? total : p.query_block;
  for (int64_t end = step; causal && end < total + step; end += step)
    add_blocks(keys, std::min({end, total, all}), key_block);
  p.key_counts = {keys.begin(), keys.end()};
}

// Of few queries, those of all its heads: rows of a tile.
constexpr int64_t rows_of_unit = 16;

// Query heads whose rows a unit computes together, so that keys and values are read once for all
// of them; as many as leave eight units and one for each thread.
int64_t heads_of_unit(const atlas::AttentionBlock& b, int64_t queries, bool on_tiles,
                      int64_t threads) {
  if (b.batch_rank == 0 || queries == 0) return 1;
  int axis = b.batch_rank - 1;
  const int64_t group = atlas::heads_sharing(b, on_tiles);
  const Expr& own = b.axes[static_cast<size_t>(axis)].extent;
  if (group <= 1 || !own.is_const() || own.constant_value() % group) return 1;
  Expr heads(1);
  for (int a = 0; a < b.batch_rank; ++a) heads = heads * b.axes[static_cast<size_t>(a)].extent;
  for (int64_t shared = group; shared > 1; --shared)
    if (group % shared == 0 && shared * queries <= rows_of_unit &&
        (!heads.is_const() || heads.constant_value() >= std::max<int64_t>(8, threads) * shared))
      return shared;
  return 1;
}

// Whether both products may run on tiles of bfloat16, which round the probabilities as dots do.
bool fits_tiles(const AttentionPlan& p, const atlas::AttentionBlock& b, const Target& target) {
  return target.tiles && b.operand_type == DType::bf16 && p.type == DType::f32 && !b.reproducible &&
         p.tile.panel == 32 && p.depth.is_const() && p.depth.constant_value() > 0;
}

// Queries whose softmax has lanes along the keys: with the heads that share a unit's keys they are
// rows, on tiles rows of one tile.
struct FewQueries {
  bool few = false, on_tiles = false;
  int64_t shared = 1;
};
FewQueries few_queries(const AttentionPlan& p, const atlas::AttentionBlock& b,
                       const Target& target) {
  if (!p.queries.is_const()) return {};
  const int64_t queries = p.queries.constant_value();
  const bool tiles = fits_tiles(p, b, target) && tiles_allowed(target, AttentionPart::few_queries);
  if (queries > (tiles ? rows_of_unit : 4)) return {};
  const int64_t shared = heads_of_unit(b, queries, tiles, target.threads);
  return {true, tiles && queries * shared > 1, shared};
}

// Panels of queries of a unit at the most; on tiles of terms units split keys and values.
constexpr int64_t most_panels = 4, most_split = 8;

constexpr int float_terms = 3;
// The chain's worst case is no less than that of the terms' sums.
constexpr int64_t least_depth = 32, most_depth = atlas::tile_k_block;

// Whether float32 is to run by terms on tiles: where it is asked for, or takes less than
// multiply-adds by the model of tiles/plan.cpp, keys and values being split once for a unit. That
// decides bits, so it follows from sizes alone.
bool terms_pay(const AttentionPlan& p, const atlas::AttentionBlock& b, const Target& target) {
  if (!target.tiles || p.type != DType::f32 || b.operand_type != DType::f32 || b.reproducible ||
      p.tile.panel != 32 || !p.depth.is_const() || p.depth.constant_value() < least_depth ||
      p.depth.constant_value() > most_depth || !tiles_allowed(target, AttentionPart::float32))
    return false;
  if (target.tile_attention) return true;
  const Processor& of = *target.processor;
  const int64_t panels = divide_up(size_or(p.queries, cost::assumed_rows), p.tile.panel);
  const int64_t queries = std::min(panels, most_split) * p.tile.panel;
  const int64_t depth = p.depth.constant_value(), values = size_or(p.values, depth);
  const double chains = fma_cycles(of, queries, key_block, depth + values);
  const double tiles = tile_cycles(of, queries, key_block, depth, float_terms) +
                       tile_cycles(of, queries, values, key_block, float_terms);
  const auto split = static_cast<double>(key_block * (depth + queries));
  const auto turned = static_cast<double>(key_block * values);
  return tiles + split * cost::split_number + turned * cost::split_column < chains / least_gain;
}

// 32 queries and a key are two cycles of tile products for 32 values of depth or width, and two
// vectors of exponentials; the values are copied once for all panels.
Expr tile_work_per_key(const AttentionPlan& p) {
  const int64_t panels = p.query_block / p.tile.panel;
  if (p.terms > 1) {
    const auto products = static_cast<int64_t>(atlas::tile_pairs(p.terms).size());
    return (p.depth + p.values) * (panels * products * cost::cycle / 16 + cost::cycle) +
           Expr(panels * 60 * cost::cycle);
  }
  return (p.depth + p.values) * (panels * cost::cycle / 16) + p.values * (cost::cycle / 2) +
         Expr(panels * 30 * cost::cycle);
}

// Panels of queries share what a unit copies or splits of the values: as many as take the threads
// the least time, who compute units in rounds.
int64_t queries_on_tiles(AttentionPlan p, const atlas::AttentionBlock& b, int64_t threads) {
  int64_t batch = 1;
  for (int a = 0; a < b.batch_rank; ++a) batch *= size_or(b.axes[static_cast<size_t>(a)].extent, 1);
  const int64_t panels = divide_up(size_or(p.queries, cost::assumed_rows), p.tile.panel);
  const auto keys = static_cast<double>(size_or(p.keys, cost::assumed_rows));
  p.values = Expr(size_or(p.values, p.depth.constant_value()));
  int64_t best = 0;
  double least = 0;  // picoseconds, which long rows may have more of than an integer holds
  for (int64_t block = std::min(panels, p.terms > 1 ? most_split : most_panels); block > 0;
       --block) {
    p.query_block = block * p.tile.panel;
    const auto rounds = static_cast<double>(divide_up(batch * divide_up(panels, block), threads));
    const auto per_key = static_cast<double>(tile_work_per_key(p).constant_value());
    const double work = rounds * (keys * per_key + cost::unit);
    if (best == 0 || work < least) best = p.query_block, least = work;
  }
  return best;
}

// Of few queries on tiles: keys and values are read from memory and the values paired, a tile
// product takes a cycle for each row, an exponential a vector for each row.
Expr tile_work_per_key_of_few(const AttentionPlan& p) {
  return (p.depth + p.values) * (cost::cycle / 8) + p.depth * (cost::cycle / 32) +
         p.values * (p.query_block * cost::cycle / 512) +
         Expr(p.query_block * 2 * cost::cycle + 4 * cost::cycle);
}

// The rows of heads lie apart where queries, keys and values come from one product for all heads,
// and hardware does not foresee them; the second-level cache has room for those of two heads.
std::vector<OperandRows> rows_ahead(const AttentionPlan& p, const atlas::AttentionBlock& b) {
  constexpr int64_t most = 256 * 1024;  // bytes
  if (p.lanes != ScoreLanes::queries || p.on_tiles || !p.k_load || !p.v_load ||
      !p.queries.is_const() || !p.keys.is_const() || !p.depth.is_const() || !p.values.is_const())
    return {};
  const int64_t depth = p.depth.constant_value();
  std::vector<OperandRows> found{{*p.k_load, p.keys.constant_value(), depth},
                                 {*p.v_load, p.keys.constant_value(), p.values.constant_value()}};
  auto q = strided_load(b.q, b.batch_rank, b.batch_rank + 2);
  if (q && q->y_stride.is(1)) found.push_back({*q, p.queries.constant_value(), depth});
  int64_t bytes = 0;
  for (const OperandRows& o : found) bytes += o.rows * o.columns * size_of(b.operand_type);
  return bytes <= most ? found : std::vector<OperandRows>{};
}

}  // namespace

std::vector<int64_t> block_sizes(const Expr& total, int64_t block) {
  std::set<int64_t> sizes;
  if (total.is_const()) add_blocks(sizes, total.constant_value(), block);
  return {sizes.begin(), sizes.end()};
}

AttentionPlan plan_attention(const atlas::Program& program, const Target& target) {
  const atlas::AttentionBlock& b = program.attention();
  AttentionPlan p;
  p.type = compute_type(b.operand_type);
  if (p.type != DType::f32 && p.type != DType::f64)
    fail(ErrorCode::unsupported, "codegen: attention on {}", name_of(b.operand_type));
  p.tile = tile_model(target, p.type);
  auto extent = [&](int axis) { return b.axes[static_cast<size_t>(b.batch_rank + axis)].extent; };
  p.queries = extent(0);
  p.keys = extent(1);
  p.depth = extent(2);
  p.values = extent(3);
  int key_axis = b.batch_rank + 1, depth_axis = key_axis + 1, value_axis = key_axis + 2;

  const auto [few, tile_rows, shared] = few_queries(p, b, target);
  p.lanes = few ? ScoreLanes::keys : ScoreLanes::queries;
  p.shared = shared;
  p.query_block = few ? p.queries.constant_value() * p.shared : p.tile.panel;
  bool plain = b.operand_type == p.type;
  bool pairs = p.depth.is_const() && p.depth.constant_value() % 2 == 0;
  if (!few && pairs && !b.reproducible) p.dots = dots_for(target, b.operand_type, p.type);
  p.on_tiles = few ? tile_rows : fits_tiles(p, b, target);
  if (p.on_tiles) {
    p.dots = Dots::bf16;
    p.terms = 1;
  } else if (!few && terms_pay(p, b, target)) {
    p.on_tiles = true;
    p.terms = float_terms;
  }
  if (p.on_tiles && !few) p.query_block = queries_on_tiles(p, b, target.threads);
  auto k = strided_load(b.k, key_axis, depth_axis);
  bool floats = is_float(b.operand_type);
  bool whole_sums = p.depth.is_const() && p.depth.constant_value() > 0 &&
                    p.depth.constant_value() % (64 / size_of(p.type)) == 0;
  // Pairs are read as words, so rows are a whole number of them apart.
  bool words =
      p.dots != Dots::none && k && k->x_stride.is_const() && k->x_stride.constant_value() % 2 == 0;
  // Tiles take whole ones of 16 keys and 32 values; rows of few queries have a copy of the last
  // keys.
  if (p.on_tiles)
    words = p.depth.constant_value() % 32 == 0 &&
            (few || (p.keys.is_const() && p.keys.constant_value() % 16 == 0));
  const bool in_place = few && !p.on_tiles ? floats && whole_sums : p.terms < 2 && (plain || words);
  if (k && k->y_stride.is(1) && in_place) p.k_load = k;
  p.pairs_of_keys = few && !p.on_tiles && p.k_load && !b.reproducible &&
                    p.depth.constant_value() % 32 == 0 &&
                    dots_for(target, b.operand_type, p.type) == Dots::bf16;
  // A last vector that is not whole would read behind the row.
  auto multiple = [&](int64_t of) {
    return p.values.is_const() && p.values.constant_value() % of == 0;
  };
  bool whole = multiple(p.tile.panel);
  auto v = strided_load(b.v, key_axis, value_axis);
  if (floats && v && v->y_stride.is(1) && multiple(p.tile.lanes) && p.dots == Dots::none &&
      !p.on_tiles)
    p.v_load = v;

  // Few queries leave registers free for several panels, which hides the latency of the chains.
  p.key_span = p.value_span = 1;
  if (few && !p.on_tiles && p.query_block > 0) {
    int span = panels_for(p.tile, static_cast<int>(p.query_block));
    p.key_span = span;
    while (span > 1 && !(whole && p.values.constant_value() % (span * p.tile.panel) == 0))
      span /= 2;
    if (p.v_load) p.value_span = span;
  }

  p.bounds = atlas::find_key_bounds(b.score, b.batch_rank);
  find_counts(p, b.causal);
  if (few) p.seen = atlas::seen_keys(b.score);
  if (!p.seen.instrs.empty() && !p.on_tiles) p.key_counts.clear();
  if (few) p.query_counts = {p.query_block};
  p.ahead = rows_ahead(p, b);
  p.query_units = p.query_block > 0 ? ceil_div(p.queries, p.query_block) : Expr(0);
  p.units = p.query_units;
  for (int a = 0; a < b.batch_rank; ++a) p.units = p.units * b.axes[static_cast<size_t>(a)].extent;
  if (p.shared > 1) p.units = *p.units.exact_div(Expr(p.shared));
  return p;
}

Launch launch_of(const AttentionPlan& p, const atlas::Program&, const Target&) {
  // About ten cycles for a vector of exponentials.
  int64_t vectors = p.lanes == ScoreLanes::queries ? p.tile.vectors : 1;
  int64_t multiply = p.query_block * cost::multiply_add * vectors / p.tile.panel / group_of(p.dots);
  Expr per_key = (p.depth + p.values) * (multiply + 50) +
                 Expr(p.query_block * 10 * cost::cycle / p.tile.lanes + 4 * cost::cycle);
  if (p.on_tiles)
    per_key = p.lanes == ScoreLanes::keys ? tile_work_per_key_of_few(p) : tile_work_per_key(p);
  Launch launch;
  launch.total = p.units;
  launch.unit_work = p.keys * per_key + cost::unit;
  return launch;
}

}  // namespace hologram::cpu
