// canon/empty.cpp: nothing is computed where a dimension is 0.
#include <algorithm>
#include <limits>

#include "canon/terms.h"
#include "ir/fold.h"

namespace hologram::canon {
namespace {

using ir::OpKind;

bool is_none(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Expr& d) { return d.is(0); });
}

// Without elements, every value is as good as any other.
Result no_elements(Terms& t, const Match& m) {
  if (m.root->dtype == DType::host || !is_none(m.root->shape)) return std::nullopt;
  return t.graph.constant(m.root->dtype, 0, m.root->shape);
}

Result reduce_nothing(Terms& t, const Match& m) {
  Value r = m.root;
  if (!is_none(r->input()->shape)) return std::nullopt;
  auto identity = ir::reduction_identity(r->op, r->dtype);
  bool position = ir::info(r->op).kind == OpKind::reduce_index;
  if (!identity && !position) return std::nullopt;
  return t.graph.constant(r->dtype, position ? 0 : *identity, r->shape);
}

// Sums over no terms.
Result sum_nothing(Terms& t, const Match& m) {
  if (!is_none(m.root->input()->shape)) return std::nullopt;
  return t.graph.constant(m.root->dtype, 0, m.root->shape);
}

// No queries, or no keys: rows of 0, and of -inf the logarithms.
Result attend_nothing(Terms& t, const Match& m) {
  Value a = m.root;
  size_t first = a->is(Op::attention_grad) ? 1 : 0;
  const Shape &k = a->input(1)->shape, &g = a->input(a->is(Op::attention_grad) ? 3 : 0)->shape;
  bool keys = k[k.size() - 2].is(0), queries = first && g[g.size() - 2].is(0);
  if (!keys && !queries) return std::nullopt;
  double value = a->is(Op::attention_lse) ? -std::numeric_limits<double>::infinity() : 0.0;
  return t.graph.number(a->dtype, value, a->shape);
}

Result concat_nothing(Terms& t, const Match& m) {
  std::vector<Value> some;
  for (Value v : m.root->inputs)
    if (!is_none(v->shape)) some.push_back(v);
  if (some.size() == m.root->inputs.size() || some.empty()) return std::nullopt;
  return t.graph.concat(std::move(some), static_cast<int>(m.root->attrs.ints[0]));
}

Result pad_nothing(Terms& t, const Match& m) {
  if (!is_none(m.root->input()->shape)) return std::nullopt;
  return t.graph.constant(m.root->dtype, m.root->attrs.bits, m.root->shape);
}

// No updates: scatter is the copy.
Result scatter_nothing(Terms&, const Match& m) {
  return is_none(m.root->input(2)->shape) ? Result(m.root->input()) : std::nullopt;
}

}  // namespace

std::vector<Rule> empty_rules() {
  std::vector<Rule> rules;
  for (int i = 0; i < ir::num_ops; ++i) {
    Op op = static_cast<Op>(i);
    OpKind kind = ir::info(op).kind;
    if (kind == OpKind::leaf || kind == OpKind::external || kind == OpKind::external_result)
      continue;
    Pattern any = Pattern::any_operands(op);
    rules.emplace_back("no_elements", any, no_elements);
    if (kind == OpKind::reduce || kind == OpKind::reduce_index)
      rules.emplace_back("reduce_nothing", any, reduce_nothing);
    if (kind == OpKind::dot) rules.emplace_back("sum_nothing", any, sum_nothing);
    if (kind == OpKind::attention || kind == OpKind::attention_grad)
      rules.emplace_back("attend_nothing", any, attend_nothing);
  }
  rules.emplace_back("concat_nothing", Pattern::any_operands(Op::concat), concat_nothing);
  rules.emplace_back("pad_nothing", Pattern::any_operands(Op::pad), pad_nothing);
  rules.emplace_back("scatter_nothing", Pattern::any_operands(Op::scatter), scatter_nothing);
  return rules;
}

}  // namespace hologram::canon
