// schedule/lower_window.cpp: products over windows of an image: memory layouts and depthwise loops.
#include "schedule/lower_window.h"

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
  // Which coordinate of the operand moves when its index along k (the batch axis of a depthwise
  // convolution) takes one step.
  int probe = one_column ? matrix - 1 : matrix + 1;
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  while (is_movement(v) && !v->is(Op::concat)) {
    at = input_index(v, 0, at);
    v = v->input();
  }
  out.read = v;
  std::vector<int64_t> symbols(static_cast<size_t>(num_symbols), 64);
  std::vector<int64_t> zero(static_cast<size_t>(matrix) + 2, 0), one = zero;
  one[static_cast<size_t>(probe)] = 1;
  for (size_t i = 0; i < at.size(); ++i)
    if (at[i].eval(symbols, zero) != at[i].eval(symbols, one)) out.read_axis = static_cast<int>(i);
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
