// backend/cuda/attention/plan.cpp: rows, columns and parts of attention.
#include "backend/cuda/attention/plan.h"

#include <algorithm>

namespace hologram::cuda {
namespace {

constexpr int64_t few_rows = 16;       // a tile of tensor cores has as many
constexpr int64_t keys_of_part = 256;  // at least
// Heads whose queries stay in registers; of those above `wide`, a CTA has fewer rows and keys in
// shared memory. Of its values a CTA sums up to `wide`.
constexpr int64_t widest_on_tensor = 256, wide = 128;

// Both products by mma: 16-bit floats whose bits are not promised.
bool takes_tensor_cores(const atlas::AttentionBlock& b, const AttentionPlan& p) {
  const bool half = b.operand_type == DType::bf16 || b.operand_type == DType::f16;
  return half && !b.reproducible && at_most(p.depth, widest_on_tensor) &&
         at_most(p.values, widest_on_tensor);
}

// Of a group that reads the same keys and values, as many heads as rows are there for.
int64_t heads_of_cta(const atlas::AttentionBlock& b, int64_t queries) {
  const int64_t group = atlas::heads_sharing(b);
  if (group <= 1) return 1;
  const Expr& own = b.axes[static_cast<size_t>(b.batch_rank - 1)].extent;
  if (!own.is_const() || own.constant_value() % group) return 1;
  for (int64_t heads = group; heads > 1; --heads)
    if (group % heads == 0 && heads * queries <= few_rows) return heads;
  return 1;
}

int rows_of(const AttentionPlan& p) {
  if (at_most(p.queries, few_rows)) return few_rows;
  if (p.tensor_cores) return at_most(p.queries, 64) || !at_most(p.depth, wide) ? 64 : 128;
  return p.type == DType::f64 || at_most(p.queries, 32) ? 32 : 64;
}

int columns_of(const AttentionPlan& p) {
  if (p.tensor_cores) {
    const int64_t values = std::max<int64_t>(p.values.constant_value(), 1);
    const int64_t panels = (values + wide - 1) / wide;
    return static_cast<int>(((values + panels - 1) / panels + 15) / 16 * 16);
  }
  return at_most(p.values, 32) ? 32 : at_most(p.values, 64) ? 64 : 128;
}

void count_units(AttentionPlan& p, const atlas::AttentionBlock& b) {
  p.row_tiles = p.few() ? min(p.queries, Expr(1)) : ceil_div(p.queries, Expr(p.rows));
  p.panels = max(ceil_div(p.values, Expr(p.columns)), Expr(1));  // log-sums need one
  p.units = p.row_tiles * p.panels * gpu::points_of(b.axes, 0, b.batch_rank - (p.heads > 1));
  if (p.heads > 1)  // the last axis is known then
    p.units *=
        Expr(gpu::points_of(b.axes, b.batch_rank - 1, b.batch_rank).constant_value() / p.heads);
}

}  // namespace

std::optional<AttentionPlan> plan_for_groups(const atlas::Program& program, AttentionPlan p) {
  constexpr int64_t narrow = 64;
  if (!p.tensor_cores || at_most(p.queries, group_rows) || !at_most(p.depth, wide) ||
      !at_most(p.values, wide))
    return std::nullopt;
  // Three groups have fewer registers each; values of score bodies need some beside the sums.
  const bool small = at_most(p.depth, narrow) && at_most(p.values, narrow),
             plain = program.attention().score.instrs.empty();
  p.rows = group_rows * (small && plain ? most_groups : most_groups - 1);
  p.key_block = plain ? 128 : 64;
  p.columns = (p.columns + 31) / 32 * 32;  // half a slice of the sums' way
  count_units(p, program.attention());
  return p;
}

std::optional<AttentionPlan> plan_for_terms(const atlas::Program& program, AttentionPlan p) {
  constexpr int64_t deepest = 64;  // terms of the queries stay in registers
  if (program.attention().operand_type != DType::f32 || program.attention().reproducible ||
      at_most(p.queries, group_rows) || !at_most(p.depth, deepest) || !at_most(p.values, deepest))
    return std::nullopt;
  p.rows = group_rows * (most_groups - 1);
  p.key_block = 64;
  p.columns = at_most(p.values, deepest / 2) ? deepest / 2 : deepest;
  count_units(p, program.attention());
  return p;
}

AttentionPlan plan_attention(const atlas::Program& program) {
  const atlas::AttentionBlock& b = program.attention();
  AttentionPlan p;
  static_cast<gpu::AttentionSizes&>(p) = gpu::sizes_of(b);
  p.type = compute_type(b.operand_type);
  p.tensor_cores = takes_tensor_cores(b, p);
  p.rows = rows_of(p);
  p.heads = p.few() ? heads_of_cta(b, p.queries.constant_value()) : 1;
  p.key_block = !p.tensor_cores ? 128 : at_most(p.depth, wide) ? 64 : 32;
  p.columns = columns_of(p);
  count_units(p, b);
  const bool long_rows = !at_most(p.keys, keys_of_part);
  p.parts =
      p.few() && !b.reproducible && long_rows ? ceil_div(p.keys, Expr(keys_of_part)) : Expr(0);
  return p;
}

int64_t part_bytes(const AttentionPlan& p) {
  return int64_t{p.rows} * (p.columns + 2) * size_of(p.type);
}

Facts facts_of(const AttentionPlan& p, int threads) {
  Facts facts;
  facts.threads = threads;
  facts.points = 1;
  facts.total = p.units;
  if (p.parts.is(0)) return facts;
  facts.parts = p.parts;
  facts.merges = static_cast<int>(p.heads * p.queries.constant_value());
  facts.team_bytes = Expr(part_bytes(p));
  return facts;
}

}  // namespace hologram::cuda
