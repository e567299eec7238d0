// schedule/lower_window.cpp: products over windows of an image: memory layouts and depthwise loops.
#include "schedule/lower_window.h"

#include <algorithm>
#include <vector>

namespace hologram::schedule {
namespace {

using ir::Op;
using ir::OpKind;
using ir::Value;

constexpr int64_t most_taps = 128;  // of a depthwise convolution that is unrolled

bool is_movement(Value v) { return ir::info(v->op).kind == OpKind::movement; }

bool reads_windows(Value v) {
  for (; is_movement(v); v = v->input())
    if (v->is(Op::window)) return true;
  return false;
}

}  // namespace

ProductLayout product_layout(const Cluster& c, int num_symbols) {
  ProductLayout out;
  size_t rank = c.axes.size();
  Value v = c.anchor->input(0);
  int matrix = v->rank() - 2;
  bool one_column = c.anchor->shape.back().is(1) && matrix > 0;
  // Which coordinates of the operand move when its index along k (the batch axis of a depthwise
  // convolution) takes one step, and then those that only longer steps along it move.
  int probe = one_column ? matrix - 1 : matrix + 1;
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  while (is_movement(v) && !v->is(Op::concat)) {
    at = input_index(v, 0, at);
    v = v->input();
  }
  out.read = v;
  std::vector<int64_t> symbols(static_cast<size_t>(num_symbols), 64);
  std::vector<int64_t> start(static_cast<size_t>(matrix) + 2, 0);
  auto moves = [&](size_t i, int64_t step) {
    std::vector<int64_t> there = start;
    there[static_cast<size_t>(probe)] = step;
    return at[i].eval(symbols, start) != at[i].eval(symbols, there);
  };
  auto moves_with_others = [&](const Expr& e) {
    for (int a = 0; a < matrix + 2; ++a)
      if (a != probe && e.has_axis(a)) return true;
    return false;
  };
  const Expr& extent = c.anchor->input(0)->shape[static_cast<size_t>(probe)];
  int64_t end = extent.is_const() ? extent.constant_value() : 0;
  for (int64_t step = 1; out.read_axes.empty() || step < end;) {
    int found = -1;
    for (size_t i = 0; i < at.size(); ++i)
      if (moves(i, step) && (step == 1 || !moves_with_others(at[i]))) found = static_cast<int>(i);
    if (found < 0 || std::count(out.read_axes.begin(), out.read_axes.end(), found)) break;
    out.read_axes.push_back(found);
    const Expr& size = v->shape[static_cast<size_t>(found)];
    if (!size.is_const() || size.constant_value() < 2) break;
    step *= size.constant_value();
  }
  if (one_column) {
    const Atom* last = single_axis(c.members[0].index[static_cast<size_t>(matrix) - 1]);
    out.written_axis = last ? last->id : -1;
  } else {
    out.written_axis = c.axes[rank - 2].id;
  }
  return out;
}

bool is_depthwise(const Cluster& c) {
  const Expr& depth = c.axes.back().extent;
  return c.anchor->rank() > 2 && c.anchor->shape.back().is(1) && depth.is_const() &&
         depth.constant_value() <= most_taps && reads_windows(c.anchor->input(0));
}

}  // namespace hologram::schedule
