// schedule/cluster/views.cpp: what values are views of, and how these run through memory.
#include "schedule/cluster/views.h"

#include <algorithm>

#include "schedule/cluster/index.h"

namespace hologram::schedule {

using ir::Op;
using ir::OpKind;
using ir::Value;

bool is_view(Value v) {
  return ir::is_movement(v->op) && v->op != Op::concat && v->op != Op::pad;
}

bool is_fence(Value v) {
  return v->is(Op::bitcast) && v->input()->is(Op::bitcast) &&
         v->dtype == v->input()->input()->dtype;
}

Value below_views(Value v) {
  while (is_view(v)) v = v->input();
  return v;
}

Value windowed(Value v) {
  Value found = nullptr;
  for (; is_view(v); v = v->input())
    if (v->is(Op::window)) found = v->input();
  return found;
}

int last_axis(Value v) {
  int last = v->rank() - 1;
  while (last > 0 && v->shape[static_cast<size_t>(last)].is(1)) --last;
  return last;
}

bool runs_along_memory(Value v, int along) {
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  for (; is_view(v); v = v->input()) at = input_index(v, 0, at);
  auto split = offset_of(at, v->attrs.exprs).linear_in_axis(along);
  return split && split->first.is(1);
}

Value turned_image(Value v) {
  if (!is_view(v)) return nullptr;
  while (is_view(v->input())) v = v->input();
  bool turned = v->is(Op::permute) && v->input()->is(Op::parameter) && v->rank() > 2 &&
                v->attrs.ints.back() == 1;
  return turned && !runs_along_memory(v, v->rank() - 1) ? v : nullptr;
}

bool is_strided(Value v) {
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  for (; is_view(v); v = v->input()) at = input_index(v, 0, at);
  for (size_t axis = 0; axis < v->shape.size(); ++axis) {
    bool linear = !at[axis].any_atom([](const Atom& a) { return !a.is_leaf(); });
    if (!linear) return false;
  }
  return true;
}

bool takes_rows(Value v, const Machine& machine) {
  const Expr& rows = v->shape[v->shape.size() - 2];
  if (rows.is_const() && rows.constant_value() < machine.gathered_rows) return false;
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  Expr along = at.back();
  for (; is_view(v); v = v->input()) at = input_index(v, 0, at);
  if (!v->is(Op::take)) return false;
  auto last_taken =
      static_cast<size_t>(v->attrs.ints[0] - v->attrs.ints[1]) + v->input(1)->shape.size();
  return last_taken < at.size() && at.back() == along;
}

namespace {

// Whether v reads what a product computes, by views and borders alone.
bool of_product(Value v) {
  while (is_view(v) || v->is(Op::pad)) v = v->input();
  return v->is(Op::dot_general);
}

}  // namespace

Value joined_parts(Value v) {
  constexpr int64_t least_channels = 8;
  if (v->rank() < 3 || !v->shape[1].is_const() || v->shape[1].constant_value() < least_channels)
    return nullptr;
  Value below = nullptr;
  const int line = v->rank() - 1;
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  for (; is_view(v); v = v->input()) {
    at = input_index(v, 0, at);
    if (!below && v->is(Op::reshape) && !v->input()->is(Op::concat)) below = v->input();
  }
  bool parts = v->is(Op::concat) && std::ranges::any_of(v->inputs, of_product);
  // One product computes all kinds.
  bool kinds = v->is(Op::dot_general) && at.back().has_axis(1) &&
               std::ranges::any_of(at, [&](const Expr& e) {
                 return e.any_atom([&](const Atom& a) {
                   return a.kind == Atom::Kind::mod && a.a->has_axis(line);
                 });
               });
  return parts || kinds ? below : nullptr;
}

}  // namespace hologram::schedule
