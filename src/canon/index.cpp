// canon/index.cpp: rules on concat, take, scatter and products.
#include <algorithm>

#include "canon/movement.h"
#include "canon/terms.h"
#include "ir/scalar.h"

namespace hologram::canon {
namespace {

using namespace pattern;  // NOLINT(google-build-using-namespace): words of the tables

// concat(concat(a, b), c) = concat(a, b, c), and empty operands go.
Result flatten_concat(Terms& t, const Match& m) {
  Value j = m.root;
  size_t axis = static_cast<size_t>(j->attrs.ints[0]);
  std::vector<Value> parts;
  bool changed = false;
  for (Value v : j->inputs) {
    bool nested = v->is(Op::concat) && v->attrs == j->attrs;
    bool empty = v->shape[axis].is(0);
    changed = changed || nested || empty;
    if (nested)
      parts.insert(parts.end(), v->inputs.begin(), v->inputs.end());
    else if (!empty)
      parts.push_back(v);
  }
  if (!changed || parts.empty()) return std::nullopt;
  return t.graph.concat(std::move(parts), static_cast<int>(axis));
}

// The slice that `a` and `b`, two slices of one tensor, make side by side.
Value join_slices(Terms& t, Value a, Value b, size_t axis) {
  if (!a->is(Op::slice) || !b->is(Op::slice) || a->input() != b->input()) return nullptr;
  if (a->attrs.ints[axis] != 1 || b->attrs.ints[axis] != 1) return nullptr;
  for (size_t i = 0; i < a->shape.size(); ++i) {
    bool same = a->attrs.exprs[i] == b->attrs.exprs[i] && a->attrs.ints[i] == b->attrs.ints[i];
    if (i != axis && !same) return nullptr;
  }
  if (b->attrs.exprs[axis] != a->attrs.exprs[axis] + a->shape[axis]) return nullptr;
  Shape sizes = a->shape;
  sizes[axis] += b->shape[axis];
  return t.graph.slice(a->input(), a->attrs.exprs, std::move(sizes), a->attrs.ints);
}

Result concat_slices(Terms& t, const Match& m) {
  size_t axis = static_cast<size_t>(m.root->attrs.ints[0]);
  std::vector<Value> parts;
  for (Value v : m.root->inputs) {
    Value joined = parts.empty() ? nullptr : join_slices(t, parts.back(), v, axis);
    if (joined)
      parts.back() = joined;
    else
      parts.push_back(v);
  }
  if (parts.size() == m.root->inputs.size()) return std::nullopt;
  return t.graph.concat(std::move(parts), static_cast<int>(axis));
}

// Elements start, start + 1, … along the axis, as many as the indices have.
Value slice_along(Terms& t, Value a, size_t axis, const Expr& start, const Expr& size) {
  Shape starts(a->shape.size(), Expr(0)), sizes = a->shape;
  starts[axis] = start;
  sizes[axis] = size;
  return t.graph.slice(a, std::move(starts), std::move(sizes), {});
}

// Indices 0, 1, …, n - 1 within bounds.
Result take_iota(Terms& t, const Match& m) {
  Value i = m.root->input(1);
  size_t axis = static_cast<size_t>(m.root->attrs.ints[0]);
  if (i->rank() != 1 || m.root->attrs.ints[1] != 0 ||
      !provably_nonnegative(m[0]->shape[axis] - i->shape[0]))
    return std::nullopt;
  if (i->dtype != DType::i32 && i->dtype != DType::i64) return std::nullopt;
  return slice_along(t, m[0], axis, Expr(0), i->shape[0]);
}

// One index within bounds, wherever it stands.
Result take_constant(Terms& t, const Match& m) {
  size_t axis = static_cast<size_t>(m.root->attrs.ints[0]);
  int64_t i = ir::as_integer(m[3]->dtype, m[3]->attrs.bits);
  const Expr& n = m[0]->shape[axis];
  Expr at = i < 0 ? n + Expr(i) : Expr(i);
  if (!provably_nonnegative(at) || !provably_less(at, n)) return std::nullopt;
  Value one = slice_along(t, m[0], axis, at, Expr(1));
  Shape small = m.root->shape;
  size_t own = m[3]->shape.size() - static_cast<size_t>(m.root->attrs.ints[1]);
  for (size_t k = 0; k < own; ++k) small[axis + k] = Expr(1);
  return t.graph.expand(t.graph.reshape(one, std::move(small)), m.root->shape);
}

// Writing the same places again: the first writing is lost.
Result scatter_again(Terms& t, const Match& m) {
  Value first = m.root->input();
  const auto &now = m.root->attrs.ints, &then = first->attrs.ints;
  if (now[1] != 0 || now[0] != then[0] || now[2] != then[2]) return std::nullopt;
  return t.graph.make(Op::scatter, {m[0], m[1], m[2]}, m.root->attrs);
}

// Every place is written, in order.
Result scatter_all(Terms&, const Match& m) {
  Value i = m.root->input(1);
  size_t axis = static_cast<size_t>(m.root->attrs.ints[0]);
  const auto& ints = m.root->attrs.ints;
  bool all = ints[1] == 0 && ints[2] == 0 && i->rank() == 1 && i->shape[0] == m[0]->shape[axis];
  bool exact = i->dtype == DType::i32 || i->dtype == DType::i64;
  return all && exact ? Result(m[1]) : std::nullopt;
}

// The keys or values with each head once, if heads are repeated in groups of `group`: as expand(x)
// from one head, or as reshape(expand(x)) from [batch…, heads, 1, n, d].
Value ungrouped(Terms& t, Value v, Expr& group) {
  size_t h = v->shape.size() - 3;
  Value e = v->is(Op::reshape) ? v->input() : v;
  if (!e->is(Op::expand)) return nullptr;
  Shape small = v->shape;
  small[h] = e->input()->shape[h];
  group = e->shape[h];
  if (v->is(Op::reshape)) {
    Shape split = v->shape;
    if (e->shape.size() != split.size() + 1) return nullptr;
    group = e->shape[h + 1];
    split[h] = e->shape[h];
    split.insert(split.begin() + static_cast<ptrdiff_t>(h) + 1, group);
    if (split != e->shape || e->shape[h] * group != v->shape[h]) return nullptr;
  }
  // Only the group's axis is repeated.
  Shape narrow = e->shape;
  narrow[v->is(Op::reshape) ? h + 1 : h] = Expr(1);
  return narrow == e->input()->shape ? t.graph.reshape(e->input(), std::move(small)) : nullptr;
}

// attention repeats key and value heads itself.
Result attention_grouped(Terms& t, const Match& m) {
  Value a = m.root;
  Expr key_group, value_group;
  Value k = ungrouped(t, a->input(1), key_group), v = ungrouped(t, a->input(2), value_group);
  if (!k || !v || key_group != value_group) return std::nullopt;
  if (!a->shape[a->shape.size() - 3].exact_div(k->shape[k->shape.size() - 3])) return std::nullopt;
  std::vector<Value> operands = a->inputs;
  operands[1] = k;
  operands[2] = v;
  return t.graph.make(a->op, std::move(operands), a->attrs);
}

// attention repeats its bias itself.
Result attention_bias(Terms& t, const Match& m) {
  Value a = m.root;
  size_t at = a->is(Op::attention_grad) ? 6 : 3;
  if (a->inputs.size() <= at || !a->input(at)->is(Op::expand)) return std::nullopt;
  std::vector<Value> operands = a->inputs;
  operands[at] = a->input(at)->input();
  return t.graph.make(a->op, std::move(operands), a->attrs);
}

// The permutation swaps the last two axes and nothing else.
bool swaps_last_two(Value p) {
  std::vector<int64_t> axes = p->attrs.ints;
  if (axes.size() < 2) return false;
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return std::is_sorted(axes.begin(), axes.end());
}

// (Aᵀ Bᵀ)ᵀ = B A: the same products in the same order.
Result transposed_product(Terms& t, const Match& m) {
  Value p = m.root, dot = p->input();
  if (!swaps_last_two(p) || !swaps_last_two(dot->input(0)) || !swaps_last_two(dot->input(1)))
    return std::nullopt;
  return t.graph.make(Op::dot_general, {m[1], m[0]}, dot->attrs, dot->dtype);
}

// Bytes that are widened to be multiplied: their product in 32 bits.
Result product_of_bytes(Terms& t, const Match& m) {
  auto byte = [](Value v) { return v->dtype == DType::i8 || v->dtype == DType::u8; };
  if (m.root->dtype != DType::i32 || !byte(m[0]) || !byte(m[1])) return std::nullopt;
  return t.graph.make(Op::dot_general, {m[0], m[1]}, m.root->attrs, DType::i32);
}

}  // namespace

std::vector<Rule> index_rules() {
  return {
      {"concat_concat", any(Op::concat), flatten_concat},
      {"concat_slices", any(Op::concat), concat_slices},
      {"take_iota", take(x, iota()), take_iota},
      {"take_constant", take(x, c), take_constant},
      {"scatter_scatter", scatter(scatter(x, y, w), y, z), scatter_again},
      {"scatter_iota", scatter(x, iota(), y), scatter_all},
      {"attention_grouped", any(Op::attention), attention_grouped},
      {"attention_bias", any(Op::attention), attention_bias},
      {"attention_grouped", any(Op::attention_lse), attention_grouped},
      {"attention_bias", any(Op::attention_lse), attention_bias},
      {"attention_bias", any(Op::attention_grad), attention_bias},
      {"dot_bytes", dot_general(cast(x), cast(y)), product_of_bytes},
      {"dot_transposed", permute(dot_general(permute(x), permute(y))), transposed_product},
  };
}

}  // namespace hologram::canon
