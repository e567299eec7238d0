// canon/hoist.cpp: element-wise work moves below movement that renames or repeats elements.
#include "canon/terms.h"

namespace hologram::canon {
namespace {

bool is_bijection_or_repeat(Op op) {
  return op == Op::reshape || op == Op::permute || op == Op::expand || op == Op::flip;
}

bool same_movement(Value a, Value b) {
  return a->op == b->op && a->attrs == b->attrs && a->input()->shape == b->input()->shape;
}

// f(move(x), move(y), constant) = move(f(x, y, constant)).
Result hoist(Terms& t, const Match& m) {
  Value moved = nullptr;
  for (Value v : m.root->inputs) {
    if (v->is_constant()) continue;
    if (!is_bijection_or_repeat(v->op) || (moved && !same_movement(v, moved))) return std::nullopt;
    moved = v;
  }
  if (!moved) return std::nullopt;
  const Shape& inner = moved->input()->shape;
  std::vector<Value> operands;
  for (Value v : m.root->inputs)
    operands.push_back(v->is_constant() ? t.graph.constant(v->dtype, v->attrs.bits, inner)
                                        : v->input());
  bool typed = ir::info(m.root->op).kind == ir::OpKind::cast;
  Value f = t.graph.make(m.root->op, std::move(operands), m.root->attrs,
                         typed ? std::optional(m.root->dtype) : std::nullopt);
  return t.rebuild(moved, {f});
}

}  // namespace

std::vector<Rule> hoist_rules() {
  std::vector<Rule> rules;
  for (int i = 0; i < ir::num_ops; ++i) {
    Op op = static_cast<Op>(i);
    if (ir::is_elementwise(op) && op != Op::neg)
      rules.emplace_back("movement_outwards", Pattern::any_operands(op), hoist);
  }
  return rules;
}

}  // namespace hologram::canon
