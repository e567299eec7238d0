// schedule/lower/sort.cpp: the order of rows.
#include "schedule/lower/kinds.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Value;

Kernels lower_sort(const Context& cx) {
  Value s = cx.cluster.anchor, x = s->input();
  auto axis = static_cast<size_t>(s->attrs.ints[0]);
  ProgramBuilder k(cx.storage.slots);
  atlas::SortBlock& b = k.program.block.emplace<atlas::SortBlock>();
  Index from, to;
  for (size_t i = 0; i < s->shape.size(); ++i) {
    const Expr& d = s->shape[i];
    from.push_back(i == axis || d.is(1) ? Expr(0) : Expr::axis(static_cast<int>(b.axes.size()), d));
    if (i != axis && !d.is(1)) b.axes.push_back({AxisKind::parallel, d});
  }
  to = from;
  b.batch_rank = static_cast<int>(b.axes.size());
  from[axis] = Expr::axis(b.batch_rank, x->shape[axis]);
  to[axis] = Expr::axis(b.batch_rank + 1, s->shape[axis]);
  b.axes.push_back({AxisKind::row, x->shape[axis]});
  b.axes.push_back({AxisKind::parallel, s->shape[axis]});
  b.descending = s->attrs.ints[1] != 0;
  b.first = static_cast<int>(s->attrs.ints[2]);
  {
    Emitter e = cx.emitter(k, b.key);
    Val key = e.widen(e.value(x, from));
    b.key_type = key.type;
    end_with(b.key, key);
  }
  Emitter e = cx.emitter(k, b.epilogue);
  for (int slot : cx.storage.stores_of(s))
    e.store(slot, to, e.builder().accumulator(0, DType::i64));
  std::vector<Lowered> out;
  out.push_back(finish(k, "argsort"));
  return out;
}

}  // namespace hologram::schedule
