// canon/reduce.cpp: rules on reductions and scans.
#include <algorithm>
#include <array>

#include "canon/movement.h"
#include "canon/terms.h"
#include "ir/scalar.h"

namespace hologram::canon {
namespace {

using ir::OpKind;

bool is_extremum(Op op) { return op == Op::reduce_max || op == Op::reduce_min; }

// The result does not depend on the order of the elements.
bool any_order(Value r) {
  return is_extremum(r->op) || (ir::info(r->op).kind == OpKind::reduce && !is_float(r->dtype));
}

bool contains(const std::vector<int64_t>& axes, size_t a) {
  return std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(a));
}

// A sum starts from +0, so that a sum of -0 alone is +0.
Value from_identity(Terms& t, Op op, Value x) {
  if (op != Op::reduce_sum || !is_float(x->dtype)) return x;
  return t.graph.binary(Op::add, x, t.graph.number(x->dtype, 0.0, x->shape));
}

// Axes of size 1 only rename.
Result reduce_ones(Terms& t, const Match& m) {
  Value r = m.root, x = r->input();
  std::vector<int64_t> wide = r->attrs.ints;
  std::erase_if(wide, [&](int64_t a) { return x->shape[static_cast<size_t>(a)].is(1); });
  if (wide.size() == r->attrs.ints.size()) return std::nullopt;
  if (!wide.empty()) return t.graph.reshape(t.graph.make(r->op, {x}, {.ints = wide}), r->shape);
  if (ir::info(r->op).kind == OpKind::reduce_index) return t.graph.integer(DType::i64, 0, r->shape);
  return from_identity(t, r->op, t.graph.reshape(x, r->shape));
}

// What is repeated along kept axes is reduced once; extrema need a repeated axis once, integer sums
// a factor.
Result reduce_expand(Terms& t, const Match& m) {
  Value r = m.root, e = r->input(), x = m[0];
  int64_t times = 1;
  for (int64_t a : r->attrs.ints) {
    size_t i = static_cast<size_t>(a);
    if (e->shape[i] == x->shape[i]) continue;
    bool countable = r->op == Op::reduce_sum && is_int(r->dtype) && e->shape[i].is_const();
    if (countable && !__builtin_mul_overflow(times, e->shape[i].constant_value(), &times)) continue;
    if (!is_extremum(r->op) || !provably_nonnegative(e->shape[i] - Expr(1))) return std::nullopt;
  }
  bool ones = std::all_of(r->attrs.ints.begin(), r->attrs.ints.end(),
                          [&](int64_t a) { return x->shape[static_cast<size_t>(a)].is(1); });
  if (times != 1 && !ones) return std::nullopt;
  Value once = t.graph.make(r->op, {x}, {.ints = r->attrs.ints});
  if (times == 1) return t.graph.expand(once, r->shape);
  Value all = t.graph.expand(t.graph.reshape(x, once->shape), r->shape);
  uint64_t factor =
      ir::eval_scalar(Op::cast, DType::i64, std::array{static_cast<uint64_t>(times)}, r->dtype);
  return t.graph.binary(Op::mul, all, t.graph.constant(r->dtype, factor, r->shape));
}

Result reduce_permute(Terms& t, const Match& m) {
  Value r = m.root, p = r->input();
  std::vector<int64_t> axes, kept;
  for (size_t i = 0; i < p->attrs.ints.size(); ++i)
    (contains(r->attrs.ints, i) ? axes : kept).push_back(p->attrs.ints[i]);
  if (!any_order(r) && !std::is_sorted(axes.begin(), axes.end())) return std::nullopt;
  Value inner = t.graph.make(r->op, {m[0]}, {.ints = axes});
  // Axis a of x is the a-th less the reduced ones below it in the result.
  for (int64_t& a : kept)
    a -= std::count_if(axes.begin(), axes.end(), [&](int64_t b) { return b < a; });
  return t.graph.permute(inner, std::move(kept));
}

// The reshape only renames axes.
Result reduce_reshape(Terms& t, const Match& m) {
  Value r = m.root, y = r->input(), x = m[0];
  if (!same_but_for_ones(x->shape, y->shape)) return std::nullopt;
  std::vector<size_t> from = wide_axes(x->shape), to = wide_axes(y->shape);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.size(); ++i)
    if (contains(r->attrs.ints, to[i])) axes.push_back(static_cast<int64_t>(from[i]));
  if (axes.empty()) return std::nullopt;
  return t.graph.reshape(t.graph.make(r->op, {x}, {.ints = axes}), r->shape);
}

Result merge_reduces(Terms& t, const Match& m) {
  Value r = m.root, inner = r->input();
  if (!any_order(r)) return std::nullopt;
  std::vector<int64_t> axes = inner->attrs.ints, kept;
  for (int64_t i = 0; i < m[0]->rank(); ++i)
    if (!contains(axes, static_cast<size_t>(i))) kept.push_back(i);
  for (int64_t a : r->attrs.ints) axes.push_back(kept[static_cast<size_t>(a)]);
  return t.graph.reduce(r->op, m[0], std::move(axes));
}

Result extremum_neg(Terms& t, const Match& m) {
  if (!is_float(m.root->dtype)) return std::nullopt;
  Op other = m.root->op == Op::reduce_max ? Op::reduce_min : Op::reduce_max;
  return t.graph.unary(Op::neg, t.graph.reduce(other, m[0], m.root->attrs.ints));
}

// Splats whose reduction rounds nowhere.
Result reduce_constant(Terms& t, const Match& m) {
  Value r = m.root, c = m[3];
  DType type = r->dtype;
  uint64_t bits = c->attrs.bits;
  Expr count(1);
  for (int64_t a : r->attrs.ints) count *= c->shape[static_cast<size_t>(a)];
  if (!provably_nonnegative(count - Expr(1))) return std::nullopt;
  if (is_extremum(r->op)) return t.graph.constant(type, bits, r->shape);
  double value = ir::as_double(type, bits);
  if (r->op == Op::reduce_prod)
    return value == 1 ? Result(t.graph.constant(type, bits, r->shape)) : std::nullopt;
  if (r->op != Op::reduce_sum) return std::nullopt;
  if (value == 0) return t.graph.number(type, 0.0, r->shape);
  if (!is_int(type) || !count.is_const()) return std::nullopt;
  uint64_t n = ir::eval_scalar(Op::cast, DType::i64,
                               std::array{static_cast<uint64_t>(count.constant_value())}, type);
  return t.graph.constant(type, ir::eval_scalar(Op::mul, type, std::array{bits, n}, type),
                          r->shape);
}

// A scan along one element.
Result scan_one(Terms&, const Match& m) {
  Value s = m.root;
  bool starts_from_zero = s->is(Op::cumsum) && is_float(s->dtype);
  bool one = s->shape[static_cast<size_t>(s->attrs.ints[0])].is(1);
  return one && !starts_from_zero ? Result(m[0]) : std::nullopt;
}

}  // namespace

std::vector<Rule> reduce_rules() {
  using pattern::c, pattern::x;
  std::vector<Rule> rules;
  for (int i = 0; i < ir::num_ops; ++i) {
    Op op = static_cast<Op>(i);
    OpKind kind = ir::info(op).kind;
    if (kind == OpKind::scan) rules.emplace_back("scan_one", Pattern::node(op, {x}), scan_one);
    if (kind != OpKind::reduce && kind != OpKind::reduce_index) continue;
    rules.emplace_back("reduce_ones", Pattern::node(op, {x}), reduce_ones);
    rules.emplace_back("reduce_expand", Pattern::node(op, {pattern::expand(x)}), reduce_expand);
    rules.emplace_back("reduce_permute", Pattern::node(op, {pattern::permute(x)}), reduce_permute);
    rules.emplace_back("reduce_reshape", Pattern::node(op, {pattern::reshape(x)}), reduce_reshape);
    if (kind == OpKind::reduce_index) continue;
    rules.emplace_back("reduce_constant", Pattern::node(op, {c}), reduce_constant);
    rules.emplace_back("reduce_reduce", Pattern::node(op, {Pattern::node(op, {x})}), merge_reduces);
    if (is_extremum(op))
      rules.emplace_back("reduce_neg", Pattern::node(op, {pattern::neg(x)}), extremum_neg);
  }
  return rules;
}

}  // namespace hologram::canon
