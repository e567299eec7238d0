// canon/slice.cpp: slices move inwards.
#include "canon/movement.h"
#include "canon/terms.h"

namespace hologram::canon {
namespace {

using namespace pattern;  // NOLINT(google-build-using-namespace): words of the tables

Result merge_slices(Terms& t, const Match& m) {
  const Attrs &outer = m.root->attrs, &inner = m.root->input()->attrs;
  Shape starts = inner.exprs;
  std::vector<int64_t> steps = inner.ints;
  for (size_t i = 0; i < starts.size(); ++i) {
    starts[i] += Expr(steps[i]) * outer.exprs[i];
    if (__builtin_mul_overflow(steps[i], outer.ints[i], &steps[i])) return std::nullopt;
  }
  return t.graph.slice(m[0], std::move(starts), m.root->shape, std::move(steps));
}

// Axes that x repeats are repeated less often; the others are sliced in x.
Result slice_expand(Terms& t, const Match& m) {
  Value s = m.root, e = s->input(), a = m[0];
  Shape starts = s->attrs.exprs, sizes = s->shape;
  std::vector<int64_t> steps = s->attrs.ints;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!a->shape[i].is(1) || e->shape[i].is(1)) continue;
    starts[i] = Expr(0);
    sizes[i] = Expr(1);
    steps[i] = 1;
  }
  return t.graph.expand(t.graph.slice(a, std::move(starts), std::move(sizes), std::move(steps)),
                        s->shape);
}

Result slice_permute(Terms& t, const Match& m) {
  Value s = m.root, p = s->input();
  size_t rank = s->shape.size();
  Shape starts(rank), sizes(rank);
  std::vector<int64_t> steps(rank);
  for (size_t i = 0; i < rank; ++i) {
    size_t from = static_cast<size_t>(p->attrs.ints[i]);
    starts[from] = s->attrs.exprs[i];
    sizes[from] = s->shape[i];
    steps[from] = s->attrs.ints[i];
  }
  Value inner = t.graph.slice(m[0], std::move(starts), std::move(sizes), std::move(steps));
  return t.graph.permute(inner, p->attrs.ints);
}

// reshape only renames axes, and the axes that come and go are not cut.
Result slice_reshape(Terms& t, const Match& m) {
  Value s = m.root, r = s->input(), a = m[0];
  if (!same_but_for_ones(a->shape, r->shape)) return std::nullopt;
  for (size_t i = 0; i < r->shape.size(); ++i)
    if (r->shape[i].is(1) && !s->shape[i].is(1)) return std::nullopt;
  std::vector<size_t> from = wide_axes(a->shape), to = wide_axes(r->shape);
  Shape starts(a->shape.size(), Expr(0)), sizes = a->shape;
  std::vector<int64_t> steps(a->shape.size(), 1);
  for (size_t i = 0; i < from.size(); ++i) {
    starts[from[i]] = s->attrs.exprs[to[i]];
    sizes[from[i]] = s->shape[to[i]];
    steps[from[i]] = s->attrs.ints[to[i]];
  }
  Value inner = t.graph.slice(a, std::move(starts), std::move(sizes), std::move(steps));
  return t.graph.reshape(inner, s->shape);
}

// [first, last] along axis i of a non-empty slice.
std::pair<Expr, Expr> range(Value s, size_t i) {
  const Expr& start = s->attrs.exprs[i];
  return {start, start + Expr(s->attrs.ints[i]) * (s->shape[i] - Expr(1))};
}

// The slice lies within one operand.
Result slice_concat(Terms& t, const Match& m) {
  Value s = m.root, joined = s->input();
  if (!joined->is(Op::concat)) return std::nullopt;
  size_t axis = static_cast<size_t>(joined->attrs.ints[0]);
  if (!provably_nonnegative(s->shape[axis] - Expr(1))) return std::nullopt;
  auto [first, last] = range(s, axis);
  Expr at(0);
  for (Value part : joined->inputs) {
    Expr end = at + part->shape[axis];
    if (provably_nonnegative(first - at) && provably_less(last, end)) {
      Shape starts = s->attrs.exprs;
      starts[axis] = first - at;
      return t.graph.slice(part, std::move(starts), s->shape, s->attrs.ints);
    }
    at = end;
  }
  return std::nullopt;
}

// The slice lies within x.
Result slice_pad(Terms& t, const Match& m) {
  Value s = m.root, p = s->input();
  Shape starts = s->attrs.exprs;
  for (size_t i = 0; i < starts.size(); ++i) {
    if (!provably_nonnegative(s->shape[i] - Expr(1))) return std::nullopt;
    auto [first, last] = range(s, i);
    starts[i] = first - p->attrs.exprs[i];
    if (!provably_nonnegative(starts[i]) ||
        !provably_less(last - p->attrs.exprs[i], m[0]->shape[i]))
      return std::nullopt;
  }
  return t.graph.slice(m[0], std::move(starts), s->shape, s->attrs.ints);
}

// pad that only cuts off.
Result pad_to_slice(Terms& t, const Match& m) {
  Value p = m.root;
  Shape starts;
  for (size_t i = 0; i < p->shape.size(); ++i) {
    starts.push_back(-p->attrs.exprs[i]);
    if (!provably_nonnegative(starts[i]) ||
        !provably_nonnegative(m[0]->shape[i] - starts[i] - p->shape[i]))
      return std::nullopt;
  }
  return t.graph.slice(m[0], std::move(starts), p->shape, {});
}

// The first elements of an iota.
Result slice_iota(Terms& t, const Match& m) {
  Value s = m.root, i = s->input();
  size_t axis = static_cast<size_t>(i->attrs.ints[0]);
  if (!s->attrs.exprs[axis].is(0) || s->attrs.ints[axis] != 1) return std::nullopt;
  return t.graph.iota(i->dtype, s->shape, static_cast<int>(axis));
}

}  // namespace

std::vector<Rule> slice_rules() {
  return {
      {"slice_slice", slice(slice(x)), merge_slices},
      {"slice_expand", slice(expand(x)), slice_expand},
      {"slice_permute", slice(permute(x)), slice_permute},
      {"slice_reshape", slice(reshape(x)), slice_reshape},
      {"slice_concat", any(Op::slice), slice_concat},
      {"slice_pad", slice(pad(x)), slice_pad},
      {"slice_iota", slice(iota()), slice_iota},
      {"pad_to_slice", pad(x), pad_to_slice},
  };
}

}  // namespace hologram::canon
