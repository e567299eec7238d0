// backend/cpu/attention/grad_plan.cpp: units of the gradients of attention.
#include <algorithm>

#include "backend/cpu/attention/grad.h"
#include "backend/cpu/choices.h"
#include "backend/cpu/cost.h"
#include "base/error.h"

namespace hologram::cpu {

namespace {

bool gradients_fit_tiles(const AttentionGradPlan& p, const atlas::AttentionGradBlock& b,
                         const Target& target) {
  return tiles_allowed(target, AttentionPart::gradients) && b.operand_type == DType::bf16 &&
         p.type == DType::f32 && !b.reproducible && p.tile.panel == 32 && p.depth.is_const() &&
         p.depth.constant_value() > 0 && p.width.is_const() && p.width.constant_value() > 0;
}

// Two cycles of tile products for 32 numbers of a score's row and column.
Expr tile_work_per_score(const AttentionGradPlan& p) {
  return (Expr(3) * p.depth + Expr(2) * p.width) * Expr(cost::cycle / 32) + Expr(20 * cost::cycle);
}

}  // namespace

AttentionGradPlan plan_attention_grad(const atlas::Program& program, const Target& target) {
  const atlas::AttentionGradBlock& b = program.attention_grad();
  AttentionGradPlan p;
  p.type = compute_type(b.operand_type);
  if (p.type != DType::f32 && p.type != DType::f64)
    fail(ErrorCode::unsupported, "codegen: attention on {}", name_of(b.operand_type));
  p.tile = tile_model(target, p.type);
  auto extent = [&](int axis) { return b.axes[static_cast<size_t>(b.batch_rank + axis)].extent; };
  p.members = extent(0);
  p.queries = extent(1);
  p.keys = extent(2);
  p.depth = extent(3);
  p.width = extent(4);
  p.on_tiles = gradients_fit_tiles(p, b, target);
  p.query_block = p.on_tiles ? 64 : 48;  // four of the highest tiles where there are 32 registers
  bool queries = !b.dq.instrs.empty(), keys = !b.dk.instrs.empty() || !b.dv.instrs.empty();
  p.share = queries && keys ? GradShare::batch : keys ? GradShare::keys : GradShare::queries;
  p.share_block = p.share == GradShare::keys ? key_block : 4 * p.query_block;
  p.query_counts = block_sizes(p.queries, p.query_block);
  p.key_counts = block_sizes(p.keys, key_block);
  p.bounds = atlas::find_key_bounds(b.score, b.batch_rank + 1);
  p.parts = p.share == GradShare::batch  ? Expr(1)
            : p.share == GradShare::keys ? ceil_div(p.keys, p.share_block)
                                         : ceil_div(p.queries, p.share_block);
  p.units = p.parts;
  for (int a = 0; a < b.batch_rank; ++a) p.units = p.units * b.axes[static_cast<size_t>(a)].extent;
  return p;
}

Launch launch_of(const AttentionGradPlan& p, const atlas::Program&, const Target&) {
  // Fifteen cycles for a vector of scores.
  Expr scores = p.members;
  scores *= p.share == GradShare::queries ? Expr(p.share_block) : p.queries;
  scores *= p.share == GradShare::keys ? Expr(p.share_block) : p.keys;
  Expr per_score =
      (Expr(3) * p.depth + Expr(2) * p.width) * Expr(cost::multiply_add) + Expr(15 * cost::cycle);
  if (p.on_tiles) per_score = tile_work_per_score(p);
  Launch launch;
  launch.total = p.units;
  launch.unit_work = floor_div(scores * per_score, p.tile.lanes) + cost::unit;
  return launch;
}

}  // namespace hologram::cpu
