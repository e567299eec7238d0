// backend/cuda/attention/groups.cpp: which attention warpgroups compute, and its tiles.
#include "backend/cuda/attention/groups.h"

namespace hologram::cuda {

std::optional<GroupsPlan> groups_plan(const atlas::Program& program) {
  const auto plan = plan_for_groups(program, plan_attention(program));
  if (!plan) return std::nullopt;
  const atlas::AttentionBlock& a = program.attention();
  const int query = a.batch_rank, key = query + 1, depth = key + 1, value = depth + 1;
  auto matrix = [&](const atlas::Body& body, int x, int k) {
    return mapped_operand(program, {body, a.operand_type, a.axes, a.batch_rank, x, k});
  };
  auto q = matrix(a.q, query, depth), k = matrix(a.k, key, depth), v = matrix(a.v, value, key);
  if (!q || !k || !v || !q->depth_run || !k->depth_run || v->depth_run) return std::nullopt;
  auto boxes = [](const Expr& size) {
    const auto n = static_cast<int>(std::max<int64_t>(size.constant_value(), 1));
    return (n + GroupsShape::box - 1) / GroupsShape::box;
  };
  const GroupsShape shape{.groups = plan->rows / group_rows,
                          .rows = plan->rows,
                          .keys = plan->key_block,
                          .depth_boxes = boxes(plan->depth),
                          .value_boxes = boxes(plan->values),
                          .columns = plan->columns,
                          .lanes = lanes_of_sums(a.epilogue)};
  q->set_box(GroupsShape::box, shape.rows, 0);
  k->set_box(GroupsShape::box, shape.keys, 0);
  v->set_box(GroupsShape::box, 0, shape.keys);
  return GroupsPlan{*plan, shape, {std::move(*q), std::move(*k), std::move(*v)}};
}

}  // namespace hologram::cuda
