// backend/cuda/attention/groups.cpp: which attention warpgroups compute, and its tiles.
#include "backend/cuda/attention/groups.h"

#include <algorithm>

#include "backend/cuda/products/terms.h"

namespace hologram::cuda {
namespace {

GroupsShape::Part part_of(const MappedMatrix& m, const Expr& length) {
  const int numbers = m.box[0];
  const auto size = static_cast<int>(std::max<int64_t>(length.constant_value(), 1));
  int bytes = size_of(m.type);
  for (const int n : m.box) bytes *= n;
  return {(size + numbers - 1) / numbers, numbers, bytes};
}

GroupsPlan shaped(const atlas::AttentionBlock& a, const AttentionPlan& plan, MappedFactor q,
                  MappedFactor k, MappedFactor v) {
  q.set_box(Async::row_bytes / size_of(q.matrix.type), plan.rows, 0);
  k.set_box(Async::row_bytes / size_of(k.matrix.type), plan.key_block, 0);
  v.set_box(Async::row_bytes / size_of(v.matrix.type), 0, plan.key_block);
  const GroupsShape shape{.groups = plan.rows / group_rows,
                          .rows = plan.rows,
                          .keys = plan.key_block,
                          .parts = {part_of(q.matrix, plan.depth), part_of(k.matrix, plan.depth),
                                    part_of(v.matrix, plan.values)},
                          .columns = plan.columns,
                          .lanes = lanes_of_sums(a.epilogue)};
  return {plan, shape, {std::move(q), std::move(k), std::move(v)}};
}

}  // namespace

std::optional<GroupsPlan> groups_plan(const atlas::Program& program) {
  const AttentionPlan plan = plan_attention(program);
  const atlas::AttentionBlock& a = program.attention();
  const int query = a.batch_rank, key = query + 1, depth = key + 1, value = depth + 1;
  auto operand = [&](const atlas::Body& body, int x, int k) {
    return MappedOperand{&body, a.operand_type, a.axes, a.batch_rank, x, k};
  };
  const MappedOperand keys = operand(a.k, key, depth), values = operand(a.v, value, key);
  auto q = mapped_operand(program, operand(a.q, query, depth));
  if (!q || !q->depth_run) return std::nullopt;
  if (const auto groups = plan_for_groups(program, plan)) {
    auto k = mapped_operand(program, keys), v = mapped_operand(program, values);
    if (!k || !v || !k->depth_run || v->depth_run) return std::nullopt;
    return shaped(a, *groups, std::move(*q), std::move(*k), std::move(*v));
  }
  const auto terms = plan_for_terms(program, plan);
  if (!terms) return std::nullopt;
  const std::vector<PlaneSource> planes{{keys, true, true}, {values, false, true}};
  const Expr first(WideFacts::mark_bytes);
  GroupsPlan out = shaped(a, *terms, std::move(*q), plane_of(planes[0], first),
                          plane_of(planes[1], first + planes[0].bytes()));
  out.planes = planes;
  return out;
}

}  // namespace hologram::cuda
