// canon/movement.cpp: merging reshape, permute, expand, flip and pad.
#include "canon/movement.h"

#include <algorithm>

#include "canon/terms.h"

namespace hologram::canon {
namespace {

using namespace pattern;  // NOLINT(google-build-using-namespace): words of the tables

Result merge_reshapes(Terms& t, const Match& m) { return t.graph.reshape(m[0], m.root->shape); }
Result merge_expands(Terms& t, const Match& m) { return t.graph.expand(m[0], m.root->shape); }

Result merge_permutes(Terms& t, const Match& m) {
  const auto &outer = m.root->attrs.ints, &inner = m.root->input()->attrs.ints;
  std::vector<int64_t> axes;
  for (int64_t a : outer) axes.push_back(inner[static_cast<size_t>(a)]);
  return t.graph.permute(m[0], std::move(axes));
}

Result merge_flips(Terms& t, const Match& m) {
  const auto &a = m.root->attrs.ints, &b = m.root->input()->attrs.ints;
  std::vector<int64_t> axes;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(axes));
  return t.graph.flip(m[0], std::move(axes));
}

// Only where the inner pad keeps all of x: what it cuts off must not come back.
Result merge_pads(Terms& t, const Match& m) {
  Value inner = m.root->input();
  if (inner->attrs.bits != m.root->attrs.bits) return std::nullopt;
  Shape low = m.root->attrs.exprs;
  for (size_t i = 0; i < low.size(); ++i) {
    const Expr& l = inner->attrs.exprs[i];
    if (!provably_nonnegative(l) || !provably_nonnegative(inner->shape[i] - l - m[0]->shape[i]))
      return std::nullopt;
    low[i] += l;
  }
  return t.graph.pad(m[0], std::move(low), m.root->shape, inner->attrs.bits);
}

// A permutation that only moves dimensions of 1.
Result permute_ones(Terms& t, const Match& m) {
  const Shape& s = m.root->input()->shape;
  int64_t last = -1;
  for (int64_t a : m.root->attrs.ints) {
    if (s[static_cast<size_t>(a)].is(1)) continue;
    if (a < last) return std::nullopt;
    last = a;
  }
  return t.graph.reshape(m.root->input(), m.root->shape);
}

// Renaming axes below an expand: reshape(expand(x)) = expand(reshape(x)) if only dimensions of 1
// come or go.
Result reshape_expand(Terms& t, const Match& m) {
  Value e = m.root->input();
  if (!same_but_for_ones(e->shape, m.root->shape)) return std::nullopt;
  std::vector<size_t> from = wide_axes(e->shape), to = wide_axes(m.root->shape);
  Shape small(m.root->shape.size(), Expr(1));
  for (size_t i = 0; i < from.size(); ++i) small[to[i]] = m[0]->shape[from[i]];
  return t.graph.expand(t.graph.reshape(m[0], std::move(small)), m.root->shape);
}

Result permute_expand(Terms& t, const Match& m) {
  return t.graph.expand(t.graph.permute(m[0], m.root->attrs.ints), m.root->shape);
}

// reshape(permute(x)) = permute(reshape(x)) if only dimensions of 1 come or go.
Result reshape_permute(Terms& t, const Match& m) {
  Value p = m.root->input();
  if (!same_but_for_ones(p->shape, m.root->shape)) return std::nullopt;
  std::vector<size_t> from = wide_axes(p->shape), to = wide_axes(m.root->shape);
  // New axis of each wide axis of the result, in the order in which x has them; ones stay at the
  // end.
  std::vector<std::pair<int64_t, size_t>> order;
  for (size_t i = 0; i < from.size(); ++i) order.emplace_back(p->attrs.ints[from[i]], to[i]);
  std::sort(order.begin(), order.end());
  Shape small(m.root->shape.size(), Expr(1));
  std::vector<int64_t> axes(small.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) {
    small[i] = m.root->shape[order[i].second];
    axes[order[i].second] = static_cast<int64_t>(i);
  }
  int64_t next = static_cast<int64_t>(order.size());
  for (int64_t& a : axes)
    if (a < 0) a = next++;
  return t.graph.permute(t.graph.reshape(m[0], std::move(small)), std::move(axes));
}

// Negation moves out of what only renames or repeats elements.
Result neg_outwards(Terms& t, const Match& m) {
  Value x = m.root->input()->input();
  return t.graph.unary(Op::neg, t.rebuild(m.root, {x}));
}

}  // namespace

std::vector<Rule> movement_rules() {
  std::vector<Rule> rules = {
      {"reshape_reshape", reshape(reshape(x)), merge_reshapes},
      {"permute_permute", permute(permute(x)), merge_permutes},
      {"expand_expand", expand(expand(x)), merge_expands},
      {"flip_flip", flip(flip(x)), merge_flips},
      {"pad_pad", pad(pad(x)), merge_pads},
      {"permute_ones", permute(x), permute_ones},
      {"reshape_expand", reshape(expand(x)), reshape_expand},
      {"permute_expand", permute(expand(x)), permute_expand},
      {"reshape_permute", reshape(permute(x)), reshape_permute},
  };
  for (Op op : {Op::reshape, Op::permute, Op::expand, Op::flip, Op::slice})
    rules.emplace_back("neg_outwards", Pattern::node(op, {neg(x)}), neg_outwards);
  return rules;
}

}  // namespace hologram::canon
