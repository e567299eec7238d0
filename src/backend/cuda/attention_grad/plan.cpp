// backend/cuda/attention_grad/plan.cpp: tiles and panels of gradients of attention.
#include "backend/cuda/attention_grad/plan.h"

#include <algorithm>

#include "backend/cuda/attention/plan.h"
#include "backend/cuda/operands.h"

namespace hologram::cuda {
namespace {

// Heads whose sums of two gradients find room in the registers of four warps, and those of which
// 32 steps find room in shared memory beside 64 rows.
constexpr int64_t widest_sums = 128, narrow_heads = 64;

bool heads_at_most(const AttentionGradPlan& p, int64_t n) {
  return at_most(p.depth, n) && at_most(p.width, n);
}

// Products by mma: 16-bit floats whose bits are not promised.
bool has_tensor_sums(const atlas::AttentionGradBlock& b, AttentionGradPlan p) {
  const bool half = b.operand_type == DType::bf16 || b.operand_type == DType::f16;
  if (!half || b.reproducible || !heads_at_most(p, widest_sums)) return false;
  constexpr int bytes = 48 * 1024 - 1024;  // 1024: what is known of queries
  return 2 * std::max(grad_factors(b, p, GradShare::keys).end,
                      grad_factors(b, p, GradShare::queries).end) <=
         bytes;
}

}  // namespace

Expr AttentionGradPlan::tiles(GradShare share) const {
  return ceil_div(share == GradShare::keys ? keys : queries, Expr(rows));
}

Expr AttentionGradPlan::panels(GradShare share) const {
  const Expr widest = share == GradShare::keys ? max(depth, width) : depth;
  return max(ceil_div(widest, Expr(columns)), Expr(1));
}

int rounded_depth(const AttentionGradPlan& p, int operand) {
  const Expr& extent = operand == 0 ? p.depth : p.width;
  return static_cast<int>((std::max<int64_t>(extent.constant_value(), 1) + 15) / 16 * 16);
}

GradFactors grad_factors(const atlas::AttentionGradBlock& b, const AttentionGradPlan& p,
                         GradShare share) {
  GradFactors f{};
  auto add = [&](const atlas::Body& body, int axis, int operand, int count) {
    const int depth = rounded_depth(p, operand), pad = GradFactors::pad;
    const bool deep = runs_along(body, axis, b.batch_rank + 3 + operand);
    const GradFactors::Place place{f.end, (deep ? depth : count) + pad};
    f.end += (deep ? count : depth) * place.stride;
    return place;
  };
  const bool keys = share == GradShare::keys;
  const int query = b.batch_rank + 1, key = query + 1;
  const atlas::Body *of_queries[] = {&b.q, &b.g}, *of_keys[] = {&b.k, &b.v};
  for (int n = 0; n < 2; ++n)
    f.rows[n] = add(keys ? *of_keys[n] : *of_queries[n], keys ? key : query, n, p.rows);
  for (int n = 0; n < 2; ++n)
    f.steps[n] = add(keys ? *of_queries[n] : *of_keys[n], keys ? query : key, n, p.steps);
  return f;
}

AttentionGradPlan plan_attention_grad(const atlas::Program& program) {
  const atlas::AttentionGradBlock& b = program.attention_grad();
  AttentionGradPlan p;
  static_cast<gpu::AttentionGradSizes&>(p) = gpu::sizes_of(b);
  p.type = compute_type(b.operand_type);
  p.rows = 64;
  p.steps = heads_at_most(p, narrow_heads) ? 32 : 16;
  p.columns = widest_sums;
  p.tensor_cores = has_tensor_sums(b, p);
  if (!p.tensor_cores) {
    const bool narrow_sums = heads_at_most(p, 64) || p.type == DType::f64;
    p.rows = p.steps = p.type == DType::f64 ? 32 : 64;
    p.columns = heads_at_most(p, 32) ? 32 : narrow_sums ? 64 : 128;
  }
  const Expr batches = gpu::points_of(b.axes, 0, b.batch_rank);
  auto units = [&](GradShare share) { return batches * p.tiles(share) * p.panels(share); };
  const bool keys = !b.dk.instrs.empty() || !b.dv.instrs.empty();
  p.key_units = keys ? units(GradShare::keys) : Expr(0);
  p.query_units = b.dq.instrs.empty() ? Expr(0) : units(GradShare::queries) * p.members;
  return p;
}

}  // namespace hologram::cuda
